"""Pace: how many items of a run go at once, and whether a red one ends it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.runs.packing import Capacity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.plan import Item
    from exacthead.tables import Runner

AUTO = "auto"


@dataclass(frozen=True)
class Pace:
    """What was asked for; one item at a time unless something was.

    Attributes:
        jobs: how many items run at once at most; None for as many as the runner has room for.
        fail_fast: whether nothing begins once a required item is red.
        runner: whose resources items share.
    """

    jobs: int | None = 1
    fail_fast: bool = False
    runner: Runner | None = None

    @property
    def at_once(self) -> bool:
        """Whether several items may run at a time."""
        return self.jobs != 1

    def on(self, runner: Runner, items: Iterable[Item], *, inside: bool = False) -> Pace:
        """The same on a runner.

        Args:
            runner: whose resources items share.
            items: that will run.
            inside: whether they run in containers.

        Raises:
            HarnessError: accelerators of one machine would be shared out among containers.
        """
        if self.at_once and inside and any(item.accelerators for item in items):
            todo = "leave out --jobs: a container is given a number of them, not which"
            raise HarnessError("--jobs with items in images", "some ask for accelerators", todo)
        return replace(self, runner=runner)

    def capacity(self, items: int) -> Capacity:
        """What there is for so many items.

        Raises:
            HarnessError: several at once on a runner that is not known.
        """
        if not self.at_once:
            return Capacity()
        if self.runner is None:
            raise HarnessError("--jobs", "no runner whose resources items share", "name one")
        return Capacity.of(self.runner, max(1, min(self.jobs or items, items)))


def read_pace(arguments: argparse.Namespace) -> Pace:
    """What a command's options ask for."""
    return Pace(arguments.jobs, arguments.fail_fast)


def add_pace(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give a command the options for it."""
    parser.add_argument(
        "--jobs", metavar="N", type=_jobs, default=1, help="items at once: a number, or auto"
    )
    parser.add_argument("--fail-fast", action="store_true", help="begin nothing after a red item")
    return parser


def _jobs(text: str) -> int | None:
    if text == AUTO:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 on nor {AUTO}")
    return int(text)
