"""Wish: how the suites of one call are run, and what of it is read from options."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_RETRIES = 2
# Beyond any suite's number of test files, and each is an item of the plan.
MOST_PARTS = 10_000


@dataclass(frozen=True)
class Wish:
    """How the suites of one call are run.

    Attributes:
        shard: number and count, when only one shard is asked for.
        shards: how many shards of each suite; None for what the suite says.
        processes: how many processes in each shard; None for what the suite says.
        retries: how often a failed test is run again.
        strict: whether what is skipped makes the run red.
        arguments: further arguments of pytest.
        coverage: whether what suites measure is measured.
        contexts: whether each line is told apart by the tests that ran it.
        changed_since: a revision: only tests that what changed since then can reach; or empty.
    """

    shard: tuple[int, int] | None = None
    shards: int | None = None
    processes: int | None = None
    retries: int = 0
    strict: bool = False
    arguments: tuple[str, ...] = ()
    coverage: bool = True
    contexts: bool = False
    changed_since: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.retries <= MOST_RETRIES:
            raise HarnessError(
                f"--retries {self.retries}",
                "a test that needs more tries than that is broken",
                f"give 0 to {MOST_RETRIES}",
            )
        if self.shard and self.shards:
            raise HarnessError("--shard and --shards", "both", "give one of them")
        for option, number in (("--shards", self.shards), ("-j", self.processes)):
            if number is not None and not 1 <= number <= MOST_PARTS:
                todo = f"give a number from 1 to {MOST_PARTS}"
                raise HarnessError(f"{option} {number}", "not a number of parts", todo)
        if self.shard and self.shard[1] > MOST_PARTS:
            asked = f"--shard {self.shard[0]}/{self.shard[1]}"
            raise HarnessError(asked, "too many parts", f"give at most {MOST_PARTS}")


def read_shard_option(text: str) -> tuple[int, int]:
    """Number and count from ``2/4``.

    Raises:
        HarnessError: it is not of that form, or the number is not one of the count.
    """
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise HarnessError(f"--shard {text}", "no part of a count", "give one as 2/4, from 1/4 on")
    return int(number), int(of)


def read_arguments(texts: Sequence[str]) -> tuple[str, ...]:
    """Arguments of pytest as a shell would split them.

    Raises:
        HarnessError: a quotation is not closed.
    """
    try:
        return tuple(word for text in texts for word in shlex.split(text))
    except ValueError as error:
        raise HarnessError(f"--pytest {texts}", str(error), "quote it for a shell") from error
