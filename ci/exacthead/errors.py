"""The one error type that reaches a person: what was asked, what was found, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Up to so many names are all said; of more, so few.
_MANY, _FEW = 20, 5


class HarnessError(Exception):
    """A failure that a person can act on.

    Args:
        asked: what the caller wanted, as a short sentence.
        found: what was there instead.
        todo: the next thing to do.
    """

    def __init__(self, asked: str, found: str, todo: str) -> None:
        super().__init__(f"{asked}\n  found: {found}\n  to do: {todo}")
        self.asked = asked
        self.found = found
        self.todo = todo


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name is meant, for the end of a sentence about an unknown one.

    Where none is close and there are many, only the least unlike ones are said.
    """
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    if len(names) > _MANY:
        few = difflib.get_close_matches(name, names, n=_FEW, cutoff=0.0)
        return f"the nearest of {len(names)}: {', '.join(few)}"
    return f"known: {', '.join(names)}" if names else "nothing is declared"
