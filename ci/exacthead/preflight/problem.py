"""Problem: one thing that cannot work, and how all of them are said at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Problem:
    """One thing that cannot work.

    Attributes:
        check: the kind of check that found it, as docs/preflight.md calls it.
        asked: what was asked, and by whom.
        found: what is there instead.
        todo: the next thing to do.
    """

    check: str
    asked: str
    found: str
    todo: str

    def __str__(self) -> str:
        return f"{self.check}: {self.asked}\n      found: {self.found}\n      to do: {self.todo}"

    def as_data(self) -> dict[str, str]:
        """JSON-ready content."""
        return asdict(self)


def of_error(check: str, error: HarnessError) -> Problem:
    """The problem that an error tells of."""
    return Problem(check, error.asked, error.found, error.todo)


def refuse(problems: Sequence[Problem]) -> None:
    """Return when there is none.

    Raises:
        HarnessError: with every problem; a single one speaks for itself.
    """
    if not problems:
        return
    if len(problems) == 1:
        (only,) = problems
        raise HarnessError(only.asked, only.found, only.todo)
    listed = "".join(f"\n    {problem}" for problem in problems)
    raise HarnessError(
        "a session that can work",
        f"{len(problems)} problems{listed}",
        "mend all of them, then ask again",
    )
