"""The points that a check looks at: chosen, typed and finite, or the reason why not."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, TypeVar

from exacthead.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exacthead.contracts.parts import Windowed
    from exacthead.contracts.series import Metrics, Point, Value

Numbers = list[tuple[int, int | float]]
Texts = list[tuple[int, str]]
T = TypeVar("T", int | float, str, int | float | str)

# A checksum is recognised by its first digits; a table has no room for all 64.
LONGEST_TEXT = 16


class UnmetError(Exception):
    """A check that does not hold.

    Args:
        message: why, in words.
        observed: what was recorded, for people.
    """

    def __init__(self, message: str, observed: str) -> None:
        super().__init__(message)
        self.message = message
        self.observed = observed


class AbsentError(UnmetError):
    """A check that cannot be evaluated, because what it needs was not recorded."""


def recorded(metrics: Metrics, name: str) -> tuple[Point, ...]:
    """Every recorded point of the metric ``name``.

    Raises:
        AbsentError: there is none; it says the nearest names that there are.
    """
    if name not in metrics.series:
        hint = nearest(name, metrics.series) if metrics.series else "no metric is recorded"
        raise AbsentError(f"no metric {name!r} is recorded; {hint}", "nothing")
    return metrics.series[name]


def numbers(metrics: Metrics, name: str) -> Numbers:
    """The (step, number) pairs of a series of which *every* point is a finite number.

    One NaN, infinity, boolean or text spoils its whole series: whoever recorded it cannot be
    trusted on the other points.
    """
    points = recorded(metrics, name)
    found: Numbers = []
    for point in points:
        value = point.value
        if isinstance(value, bool | str):
            kind = "a text" if isinstance(value, str) else "a boolean"
            raise _spoiled(name, point, f"is {kind}, not a number", points)
        if isinstance(value, float) and not math.isfinite(value):
            raise _spoiled(name, point, "is not a finite number", points)
        if abs(value) > sys.float_info.max:
            raise _spoiled(name, point, "is beyond the range of a float", points)
        found.append((point.step, value))
    return found


def texts(metrics: Metrics, name: str) -> Texts:
    """The (step, text) pairs of a series of which every point is a text."""
    points = recorded(metrics, name)
    found: Texts = []
    for point in points:
        if not isinstance(point.value, str):
            raise _spoiled(name, point, "is not a text", points)
        found.append((point.step, point.value))
    return found


def at_step(name: str, pairs: list[tuple[int, T]], step: int | None) -> list[tuple[int, T]]:
    """The pair of the metric ``name`` at ``step``, or all pairs when no step is asked for."""
    if step is None:
        return pairs
    chosen = [pair for pair in pairs if pair[0] == step]
    if not chosen:
        has = some_steps(number for number, _ in pairs)
        raise AbsentError(f"{name!r} has no point at step {step}; it has {has}", summary(pairs))
    return chosen


def windowed(check: Windowed, pairs: Numbers, least: int = 1) -> Numbers:
    """The recorded points in the check's window; without one, all of at least ``least``."""
    wanted = check.window or least
    if len(pairs) < wanted:
        message = f"{check.metric!r} has {len(pairs)} recorded points, and {wanted} are needed"
        raise AbsentError(message, summary(pairs))
    if check.window is None:
        return pairs
    return pairs[: check.window] if check.counted_from == "first" else pairs[-check.window :]


def paired(
    first: tuple[str, list[tuple[int, T]]], second: tuple[str, list[tuple[int, T]]]
) -> list[tuple[int, T, T]]:
    """Two metrics, given as (name, pairs), side by side; both must have each step."""
    (name, left), (other, right) = first, second
    rights = dict(right)
    lefts = dict(left)
    for has, lacks, steps in (
        (name, other, lefts.keys() - rights.keys()),
        (other, name, rights.keys() - lefts.keys()),
    ):
        if steps:
            message = f"at step {min(steps)} {has!r} is recorded and {lacks!r} is not"
            raise AbsentError(message, summary(left))
    return [(step, value, rights[step]) for step, value in left]


def show(value: Value) -> str:
    """One value for people, as JSON would write it; long texts are cut."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return json.dumps(value[:LONGEST_TEXT] + "…", ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def summary(pairs: Sequence[tuple[int, Value]]) -> str:
    """All values for people: the one, the few, or their number and the last one."""
    few = 3
    if len(pairs) <= few:
        return ", ".join(show(value) for _, value in pairs)
    return f"{len(pairs)} points, the last {show(pairs[-1][1])}"


def some_steps(steps: Iterable[int]) -> str:
    """Steps for people: ``step 1``, ``steps 1, 2``; of many the first five."""
    most = 5
    shown = sorted(steps)
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    word = "step" if len(shown) == 1 else "steps"
    return f"{word} {', '.join(map(str, shown[:most]))}{rest}"


def _spoiled(name: str, point: Point, why: str, points: tuple[Point, ...]) -> UnmetError:
    where = f"{name!r} at step {point.step}"
    return UnmetError(f"{where} is {show(point.value)}, which {why}", _seen(point, points))


def _seen(point: Point, points: tuple[Point, ...]) -> str:
    alone = len(points) == 1
    return show(point.value) + ("" if alone else f" at step {point.step} of {len(points)} points")
