"""Contracts that no run can satisfy: two checks of which each rules the other out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from exacthead.contracts.model import (
    Between,
    Comparison,
    Equals,
    OneOf,
    PresentAt,
    RecordedSteps,
    Sign,
    TextEquals,
)
from exacthead.contracts.parts import AtPoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exacthead.contracts.model import AnyCheck, Contract

_NUMERIC = (Equals, Between, Sign)
_TEXTS = (TextEquals, Comparison)


@dataclass(frozen=True)
class Contradiction:
    """Two checks that cannot both hold, by their names, and why."""

    first: str
    second: str
    why: str

    def __str__(self) -> str:
        return f"no run can pass both {self.first!r} and {self.second!r}: {self.why}"


def contradictions(contract: Contract) -> tuple[Contradiction, ...]:
    """Each pair of checks of which no recorded metrics satisfy both.

    Only what two checks say of one point of one metric, and of the steps that there are, is
    compared; that none is found does not prove that a run can pass.
    """
    found = []
    for first, second in combinations(contract.checks, 2):
        why = _of_steps(first, second) or _of_steps(second, first) or _of_points(first, second)
        if why:
            found.append(Contradiction(first.name, second.name, why))
    return tuple(found)


def _of_steps(all_steps: AnyCheck, other: AnyCheck) -> str:
    """Why ``other`` cannot hold where only some steps are recorded; empty when it can."""
    if not isinstance(all_steps, RecordedSteps):
        return ""
    if isinstance(other, RecordedSteps):
        same = set(all_steps.steps) == set(other.steps)
        return "" if same else f"{all_steps.bound}, and {other.bound}"
    wanted: set[int] = set()
    if isinstance(other, PresentAt):
        wanted = set(other.steps)
    elif isinstance(other, AtPoints) and other.step is not None:
        wanted = {other.step}
    gone = sorted(wanted - set(all_steps.steps))
    return f"{all_steps.bound}, and one looks at step {gone[0]}" if gone else ""


def _of_points(first: AnyCheck, second: AnyCheck) -> str:
    """Why no value of one metric satisfies both; empty when one does, or it cannot be told."""
    if not (isinstance(first, AtPoints) and isinstance(second, AtPoints)):
        return ""
    apart = None not in {first.step, second.step} and first.step != second.step
    if first.metric != second.metric or apart:
        return ""
    told = f"{first.metric} {first.bound}, and {second.bound}"
    texts = [_is_text(first), _is_text(second)]
    if None in texts:
        return ""
    if texts[0] != texts[1]:
        return f"{told}: one wants a text, the other a number"
    if texts[0]:
        ours, theirs = _texts(first), _texts(second)
        return "" if ours is None or theirs is None or ours & theirs else told
    tried = _candidates((*_ends(first), *_ends(second)))
    return "" if any(_holds(first, x) and _holds(second, x) for x in tried) else told


def _is_text(check: AtPoints) -> bool | None:
    """Whether it wants texts; None where it is about two metrics of numbers."""
    if isinstance(check, _TEXTS):
        return True
    if isinstance(check, OneOf):
        return check.of_texts
    return False if isinstance(check, _NUMERIC) else None


def _texts(check: AtPoints) -> set[str] | None:
    """The texts that it accepts; None for any."""
    if isinstance(check, TextEquals):
        return {check.value}
    return {str(value) for value in check.values} if isinstance(check, OneOf) else None


def _ends(check: AtPoints) -> Iterator[float]:
    match check:
        case Equals():
            yield from (check.value - check.tolerance, check.value, check.value + check.tolerance)
        case Between():
            yield from (end for end in (check.min, check.max) if end is not None)
        case OneOf():
            yield from (value for value in check.values if not isinstance(value, str))
        case _:
            yield 0


def _candidates(ends: Iterable[float]) -> list[float]:
    """Values of which one is in each set that ends there: ends, what lies between, beyond them."""
    known = sorted(set(ends))
    between = [low / 2 + high / 2 for low, high in pairwise(known)]
    return [known[0] - 1, *known, *between, known[-1] + 1]


def _holds(check: AtPoints, value: float) -> bool:
    match check:
        case Equals():
            return abs(value - check.value) <= check.tolerance
        case Between() | Sign():
            return check.holds(value)
        case OneOf():
            return value in check.values
        case _:
            return True
