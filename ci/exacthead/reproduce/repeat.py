"""Repeat: an item again, once or until it is not green, each time from the same state."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from exacthead.equip import open_store
from exacthead.errors import HarnessError
from exacthead.images.where import in_images
from exacthead.judgement import judgement
from exacthead.reproduce.again import plan_again
from exacthead.reproduce.checkout import checkout
from exacthead.reproduce.images import placed_again
from exacthead.reproduce.past import find
from exacthead.reproduce.probe import find_poison
from exacthead.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.reproduce.past import Past


def reproduce_item(  # noqa: PLR0913 - what a person can ask of it
    harness: Harness,
    path: Path,
    console: Console,
    *,
    invocation: str,
    until_fail: int = 1,
    bisect: str | None = None,
) -> int:
    """Run one item of an earlier run again: same files, keys, order, seed and environment.

    Args:
        harness: the declarations of this checkout, where workers and new run folders stay.
        path: RUN/ITEM.
        console: where progress goes; each difference from the run is a line that says so.
        invocation: how it was asked for, for the new plan.
        until_fail: how often at most; the first that is not green is the last. Each repetition has
            a checkout as the run had it and a run folder of its own.
        bisect: a test of the item: find the earlier tests that make it fail, instead.

    Returns:
        The exit code: that of the last repetition; with ``bisect``, 1 where the test was red.

    Raises:
        HarnessError: there is no such item, or what was asked cannot be done with it.
    """
    past = find(path)
    if until_fail < 1:
        raise HarnessError(f"repeat {path} {until_fail} times", "less than once", "ask for more")
    if bisect is None:
        return _until_red(harness, past, console, invocation, until_fail)
    if until_fail > 1:
        raise HarnessError(
            f"repeat {path}, and bisect its order", "two questions", "ask for one of them"
        )
    return find_poison(harness, past, console, invocation, bisect)


def _until_red(harness: Harness, past: Past, console: Console, invocation: str, times: int) -> int:
    code = 0
    for number in range(1, times + 1):
        if times > 1:
            # Said first: the last line of a run counts its test cases, for those who look for it.
            console.out(f"exacthead: repetition {number} of {times}, {number - 1} were green")
        code = _once(harness, past, console, invocation)
        if code != 0:
            break
    return code


def _once(harness: Harness, past: Past, console: Console, invocation: str) -> int:
    with again(harness, past, console, invocation) as session:
        return session.run()


@contextmanager
def again(harness: Harness, past: Past, console: Console, invocation: str) -> Iterator[Session]:
    """A session for the plan of an earlier run, in a checkout as that run had it.

    Args:
        harness: the declarations of this checkout, where workers and new run folders stay.
        past: the earlier run.
        console: where progress goes; each difference from the run is a line that says so.
        invocation: how it was asked for, for the new plan.

    Raises:
        HarnessError: there cannot be such a checkout, or not all that the plan needs.
    """
    with ExitStack() as held, checkout(harness.root, past) as (root, apart):
        # The workers and the new run stay in this checkout, wherever the item runs.
        store = open_store(harness.root)

        def say(line: str) -> None:
            console.out(f"exacthead: {line}")

        images = held.enter_context(placed_again(past, root, harness.root, say))
        there, plan, specs, more = plan_again(past, root, store, invocation, images)
        remarks = tuple(f"differs: {line}" for line in (*apart, *more))
        for line in remarks:
            console.out(f"exacthead: {line}")
        runs = harness.root / "runs"
        known = judgement(there.root, runs, plan.runner, plan.head)
        session = Session(there, plan, specs, store, console, runs, known, remarks)
        yield in_images(session, images)
