"""The image of an earlier run's item: the same one, or one that is made of the same again."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from exacthead import machine
from exacthead.config import load
from exacthead.images.engine import Engine
from exacthead.images.where import again, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from exacthead.images.where import Placed
    from exacthead.reproduce.past import Past


@contextmanager
def placed_again(
    past: Past, root: Path, home: Path, say: Callable[[str], None]
) -> Iterator[Placed | None]:
    """The image that the item was in, verified anew; None where it was in none.

    Args:
        past: the item.
        root: a checkout of what the run had.
        home: the checkout whose caches are used.
        say: is told what takes long.

    Raises:
        HarnessError: there is no engine, or the image is not of that head.
    """
    plan = past.plan
    if not plan.images or past.item.settled:
        yield None
        return
    harness = load(root)
    runner = harness.runners.get(plan.runner) or machine.this_runner()
    with closing(Engine()) as engine:
        asked = again(plan, engine)
    with placed(
        harness, plan.items, asked, flavour=plan.flavour, runner=runner, say=say, home=home
    ) as images:
        yield images
