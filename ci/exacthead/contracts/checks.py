"""Each kind of check, as a pure function of the recorded metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.contracts import model, window
from exacthead.contracts.points import (
    AbsentError,
    T,
    UnmetError,
    at_step,
    numbers,
    paired,
    recorded,
    show,
    some_steps,
    summary,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.contracts.parts import AtPoints
    from exacthead.contracts.series import Metrics, Value


def observe(check: model.AnyCheck, metrics: Metrics) -> str:
    """Hold ``check`` against ``metrics`` and say what was observed.

    Raises:
        UnmetError: the check does not hold.
        AbsentError: what it needs was not recorded.
    """
    match check:
        case model.TextEquals() | model.Comparison():
            return _texts(check, metrics)
        case model.OneOf():
            return _one_of(check, metrics)
        case model.Equals() | model.Between() | model.Sign():
            return _each_number(check, metrics)
        case model.Opposite():
            return _opposite(check, metrics)
        case model.Count() | model.PresentAt() | model.RecordedSteps():
            return _presence(check, metrics)
        case model.Monotone() | model.Average() | model.Ratio() | model.Trend():
            return window.observe(check, metrics)


def _each_number(check: model.Equals | model.Between | model.Sign, metrics: Metrics) -> str:
    pairs = at_step(check.metric, numbers(metrics, check.metric), check.step)
    if not isinstance(check, model.Equals):
        return _every(check, pairs, check.holds)
    if check.integer:
        return _every(check, pairs, lambda value: isinstance(value, int) and value == check.value)
    return _every(check, pairs, lambda value: _near(value, check.value, check.tolerance))


def _near(value: float, wanted: float, tolerance: float) -> bool:
    # Equality first: the difference of two large integers would be rounded.
    return value == wanted or (tolerance > 0 and abs(value - wanted) <= tolerance)


def _texts(check: model.TextEquals | model.Comparison, metrics: Metrics) -> str:
    left = at_step(check.metric, texts(metrics, check.metric), check.step)
    if isinstance(check, model.TextEquals):
        return _every(check, left, lambda value: value == check.value)
    right = at_step(check.other, texts(metrics, check.other), check.step)
    for step, one, two in paired((check.metric, left), (check.other, right)):
        # Two checksums that were never taken are equal, and prove nothing.
        if not one.strip() or not two.strip():
            empty = check.metric if not one.strip() else check.other
            raise UnmetError(f"{empty!r} is blank at step {step}", summary(left))
        if (one == two) != (check.kind == "same_as"):
            message = f"at step {step} {check.metric!r} is {one!r} and {check.other!r} is {two!r}"
            raise UnmetError(message, f"{show(one)} and {show(two)}")
    return f"{summary(left)} and {summary(right)}"


def _one_of(check: model.OneOf, metrics: Metrics) -> str:
    if check.of_texts:
        words = at_step(check.metric, texts(metrics, check.metric), check.step)
        return _every(check, words, lambda value: value in check.values)
    found = at_step(check.metric, numbers(metrics, check.metric), check.step)
    return _every(check, found, lambda value: value in check.values)


def _opposite(check: model.Opposite, metrics: Metrics) -> str:
    left = at_step(check.metric, numbers(metrics, check.metric), check.step)
    right = at_step(check.other, numbers(metrics, check.other), check.step)
    for step, one, two in paired((check.metric, left), (check.other, right)):
        signs = (one > 0 > two) or (one < 0 < two)
        if not signs or not _near(one, -two, check.tolerance):
            what = "magnitudes differ" if signs else "signs are not opposite"
            message = (
                f"at step {step} {check.metric!r} is {one} and {check.other!r} is {two}: {what}"
            )
            raise UnmetError(message, f"{one} and {two}")
    return f"{summary(left)} and {summary(right)}"


def _presence(check: model.Count | model.PresentAt | model.RecordedSteps, metrics: Metrics) -> str:
    if isinstance(check, model.Count):
        found = len(metrics.series.get(check.metric, ()))
        if found == 0:
            # Says the nearest names, unless no point is what the check wants.
            if not check.holds(0):
                recorded(metrics, check.metric)
        elif not check.holds(found):
            raise UnmetError(f"{check.metric!r} has {found} points", f"{found} points")
        return f"{found} points"
    if isinstance(check, model.PresentAt):
        have = {point.step for point in recorded(metrics, check.metric)}
        what, only = repr(check.metric), check.exactly
    else:
        have, what, only = set(metrics.steps), "the file", True
    return _steps(what, have, set(check.steps), only=only)


def _steps(what: str, have: set[int], want: set[int], *, only: bool) -> str:
    observed = some_steps(have)
    if want - have:
        raise AbsentError(f"{what} has no point at {some_steps(want - have)}", observed)
    if only and have - want:
        raise UnmetError(f"{what} also has a point at {some_steps(have - want)}", observed)
    return observed


def _every(check: AtPoints, pairs: list[tuple[int, T]], holds: Callable[[T], bool]) -> str:
    """Hold each point against a predicate; the first that does not hold is named."""
    bad = [pair for pair in pairs if not holds(pair[1])]
    if not bad:
        return summary(pairs)
    step, value = bad[0]
    share = "" if len(pairs) == 1 else f" ({len(bad)} of {len(pairs)} points)"
    message = f"{check.metric!r} is {_full(value)} at step {step}, wanted {check.bound}{share}"
    raise UnmetError(message, summary(bad[:1]))


def _full(value: Value) -> str:
    return repr(value) if isinstance(value, str) else show(value)
