"""Checks over a window of recorded points: direction, median, mean, ratio of outliers, trend."""

from __future__ import annotations

import itertools
import math
import statistics
from decimal import Decimal
from typing import TYPE_CHECKING

from exacthead.contracts import model
from exacthead.contracts.points import Numbers, UnmetError, numbers, summary, windowed

if TYPE_CHECKING:
    from exacthead.contracts.series import Metrics

# A third of the points at each end holds a median; fewer points have no trend.
LEAST_FOR_A_TREND = 3
LEAST_FOR_A_DIRECTION = 2


def observe(
    check: model.Monotone | model.Average | model.Ratio | model.Trend, metrics: Metrics
) -> str:
    """Hold ``check`` against ``metrics`` and say what was observed.

    Raises:
        UnmetError: the check does not hold.
        AbsentError: the metric, or enough points of it, were not recorded.
    """
    least = {"trend": LEAST_FOR_A_TREND, "monotone": LEAST_FOR_A_DIRECTION}.get(check.kind, 1)
    pairs = windowed(check, numbers(metrics, check.metric), least)
    if isinstance(check, model.Monotone):
        return _monotone(check, pairs)
    if isinstance(check, model.Ratio):
        return _ratio(check, pairs)
    try:
        value = _average(check, pairs) if isinstance(check, model.Average) else _trend(check, pairs)
    except OverflowError:
        value = math.inf
    what = (
        f"{check.measure if isinstance(check, model.Trend) else check.kind} of {len(pairs)} points"
    )
    observed = f"{value} ({what})"
    if not math.isfinite(value):
        raise UnmetError(f"the {what} of {check.metric!r} leaves the range of a float", observed)
    if not check.holds(value):
        message = f"the {what} of {check.metric!r} is {value}, wanted {check.range}"
        raise UnmetError(message, observed)
    return observed


def resistant_slope(pairs: Numbers) -> float:
    """The slope of Tukey's three-group resistant line, in the metric's units a step.

    The medians of the first and of the last third are joined; less than half of either third can
    be spikes without moving it (J. W. Tukey, Exploratory Data Analysis, 1977, chapter 5).

    Args:
        pairs: at least three (step, value) pairs in order of strictly increasing steps.
    """
    third = len(pairs) // 3
    ends = pairs[:third], pairs[-third:]
    (x_left, y_left), (x_right, y_right) = (
        (statistics.median(x for x, _ in end), statistics.median(y for _, y in end)) for end in ends
    )
    return (y_right - y_left) / (x_right - x_left)


def _average(check: model.Average, pairs: Numbers) -> float:
    values = [value for _, value in pairs]
    return statistics.median(values) if check.kind == "median" else statistics.fmean(values)


def _trend(check: model.Trend, pairs: Numbers) -> float:
    slope = resistant_slope(pairs)
    return slope if check.measure == "slope" else slope * (pairs[-1][0] - pairs[0][0])


def _ratio(check: model.Ratio, pairs: Numbers) -> str:
    outside = [(step, value) for step, value in pairs if not check.holds(value)]
    observed = f"{len(outside)} of {len(pairs)} points outside"
    # Decimal, as written in the contract: in floats 0.29 * 100 is below 29.
    if len(outside) > Decimal(repr(check.max_ratio)) * len(pairs):
        step, value = outside[0]
        message = (
            f"{len(outside)} of {len(pairs)} points of {check.metric!r} are not {check.range}, "
            f"first {value} at step {step}; at most {check.max_ratio:.3g} may"
        )
        raise UnmetError(message, observed)
    return observed


def _monotone(check: model.Monotone, pairs: Numbers) -> str:
    sign = 1 if check.direction == "increasing" else -1
    for (step, before), (later, after) in itertools.pairwise(pairs):
        wrong = (after < before) if sign > 0 else (after > before)
        if wrong or (check.strict and after == before):
            message = (
                f"{check.metric!r} goes from {before} at step {step} to {after} at step {later}"
            )
            raise UnmetError(message, summary(pairs))
    return summary(pairs)
