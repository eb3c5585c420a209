"""The workers that a plan needs: their specs resolved on this machine, then built or reused."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.workers.index import read_indexes
from exacthead.workers.resolve import build_supplies, resolve
from exacthead.workers.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built

BUILD_DEADLINE_S = 1800.0


def open_store(root: Path) -> Store:
    """The worker store of the checkout at ``root``: below its cache folder."""
    return Store(cache_folder(root) / "workers")


def resolve_all(harness: Harness, names: Iterable[str], flavour: str) -> dict[str, Spec]:
    """The spec of each named worker, by name; a missing or stale lock is an error."""
    indexes = read_indexes(os.environ)
    return {name: resolve(harness, name, flavour, indexes=indexes) for name in sorted(set(names))}


@contextmanager
def ready(
    harness: Harness, specs: dict[str, Spec], say: Callable[[str], None]
) -> Iterator[dict[str, Built]]:
    """Build what is not ready, one worker after the other, and mark all as in use meanwhile."""
    store = open_store(harness.root)
    indexes = read_indexes(os.environ)
    built = {}
    with ExitStack() as in_use:
        for name, spec in specs.items():
            worker = store.ensure(
                spec,
                deadline_s=BUILD_DEADLINE_S,
                progress=lambda stage, name=name: say(f"worker {name}: {stage}"),
                **build_supplies(harness, spec, indexes),
            )
            if not spec.provided:
                in_use.enter_context(store.using(worker.key, "a run"))
            how = "provided" if spec.provided else "reused" if worker.reused else "built"
            say(f"worker {name}: {how} {worker.key[:12]} in {worker.timings['total']:.2f} s")
            built[name] = worker
        yield built
