"""Kinds that look at a window of recorded points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.contracts.window import resistant_slope
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.contracts.evaluate import CheckResult

PARITY = {"min": 1.0, "max": 1.1, "max_inclusive": False}
ONE_SPIKE = [1.001] * 60 + [7.5] + [1.001] * 39
TWELVE_SPIKES = ([1.001] * 7 + [7.5]) * 12 + [1.001] * 4
DRIFT = [1.00, 1.02, 1.05, 1.07, 1.10, 1.12, 1.15, 1.17]


def test_one_spike_in_a_hundred_points_passes_the_median_and_the_ratio(
    hold_series: Callable[..., CheckResult],
) -> None:
    median = hold_series(ONE_SPIKE, kind="median", window=100, **PARITY)
    ratio = hold_series(ONE_SPIKE, kind="ratio", window=100, max_ratio=0.1, **PARITY)

    assert (median.verdict.kind, median.observed) == (
        Kind.PASSED,
        "1.001 (median of 100 points)",
    )
    assert (ratio.verdict.kind, ratio.observed) == (Kind.PASSED, "1 of 100 points outside")


def test_twelve_spikes_in_a_hundred_points_fail_the_ratio_not_the_median(
    hold_series: Callable[..., CheckResult],
) -> None:
    median = hold_series(TWELVE_SPIKES, kind="median", window=100, **PARITY)
    ratio = hold_series(TWELVE_SPIKES, kind="ratio", window=100, max_ratio=0.1, **PARITY)

    assert median.verdict.kind is Kind.PASSED
    assert ratio.verdict.reason == (
        "12 of 100 points of 'm' are not >= 1.0 and < 1.1, first 7.5 at step 8; at most 0.1 may"
    )


@pytest.mark.parametrize("spikes", [0, 1, 12, 14, 28, 29, 57, 58, 98])
def test_a_ratio_is_the_decimal_that_is_written(
    hold_series: Callable[..., CheckResult], spikes: int
) -> None:
    check = {"kind": "ratio", "max": 1, "max_ratio": spikes / 100}

    kept = hold_series([9] * spikes + [1] * (100 - spikes), **check)
    over = hold_series([9] * (spikes + 1) + [1] * (99 - spikes), **check)

    assert kept.verdict.kind is Kind.PASSED
    assert over.verdict.kind is Kind.FAILED


def test_a_drift_below_the_bound_is_flagged_by_the_trend(
    hold_series: Callable[..., CheckResult],
) -> None:
    each = hold_series(DRIFT, kind="between", min=1.0, max=1.2)
    trend = hold_series(DRIFT, kind="trend", max=0.05)

    assert each.verdict.kind is Kind.PASSED
    assert trend.verdict.kind is Kind.FAILED
    assert trend.verdict.reason.startswith("the growth of 8 points of 'm' is 0.17")
    assert hold_series(DRIFT[::-1], kind="trend", max=0.05).verdict.kind is Kind.PASSED
    assert hold_series(DRIFT[::-1], kind="trend", min=-0.05).verdict.kind is Kind.FAILED


def test_one_spike_at_either_end_is_no_trend(hold_series: Callable[..., CheckResult]) -> None:
    for values in ([9.0] + [1.0] * 20, [1.0] * 20 + [9.0]):
        result = hold_series(values, kind="trend", min=-0.001, max=0.001)
        assert (result.verdict.kind, result.observed) == (
            Kind.PASSED,
            f"{result.observed.split()[0]} (growth of 21 points)",
        )


def test_a_slope_is_counted_by_steps_not_by_points(hold: Callable[..., CheckResult]) -> None:
    rows = [{"step": step, "m": 2 * step + 1} for step in (0, 10, 40, 50, 90, 100)]

    slope = hold(rows, kind="trend", metric="m", measure="slope", min=2, max=2)
    growth = hold(rows, kind="trend", metric="m", measure="growth", min=200, max=200)

    assert (slope.verdict.kind, slope.observed) == (Kind.PASSED, "2.0 (slope of 6 points)")
    assert (growth.verdict.kind, growth.observed) == (Kind.PASSED, "200.0 (growth of 6 points)")


def test_the_resistant_line_joins_the_medians_of_the_outer_thirds() -> None:
    # Thirds of 3: left medians (2, 5), right medians (8, 11).
    pairs: list[tuple[int, int | float]] = [
        (1, 5),
        (2, 99),
        (3, 4),
        (4, 0),
        (5, 0),
        (6, 0),
        (7, 11),
        (8, -50),
        (9, 12),
    ]

    assert resistant_slope(pairs) == (11 - 5) / (8 - 2)


def test_the_window_counts_recorded_points_from_the_last(hold: Callable[..., CheckResult]) -> None:
    values = dict.fromkeys((5, 10, 15), 100) | dict.fromkeys((20, 25, 30), 1)
    rows = [
        {"step": step, "m": values[step]} if step in values else {"step": step}
        for step in range(1, 31)
    ]

    assert hold(rows, kind="mean", metric="m", max=1, window=3).observed == "1.0 (mean of 3 points)"
    assert hold(rows, kind="mean", metric="m", max=1, window=3).verdict.kind is Kind.PASSED
    assert hold(rows, kind="mean", metric="m", max=1, window=4).observed == (
        "25.75 (mean of 4 points)"
    )
    assert hold(rows, kind="median", metric="m", max=1, window=6).observed == (
        "50.5 (median of 6 points)"
    )
    few = hold(rows, kind="mean", metric="m", max=1, window=7)
    assert few.verdict.reason == "'m' has 6 recorded points, and 7 are needed"


def test_a_window_may_be_counted_from_the_first_point(
    hold_series: Callable[..., CheckResult],
) -> None:
    rising = [0.1, 0.2, 0.9, 1.0]
    first = {"window": 2, "counted_from": "first"}

    assert hold_series(rising, kind="median", max=0.3, **first).verdict.kind is Kind.PASSED
    assert hold_series(rising, kind="mean", max=0.1, **first).verdict.kind is Kind.FAILED
    assert hold_series(rising, kind="median", max=0.3, window=2).verdict.kind is Kind.FAILED
    assert hold_series(rising, kind="median", min=0.9, window=2).verdict.kind is Kind.PASSED
    falling_at_the_end = [1, 2, 3, 0]
    up = {"kind": "monotone", "direction": "increasing", "window": 3}
    assert hold_series(falling_at_the_end, **up).verdict.kind is Kind.FAILED
    assert hold_series(falling_at_the_end, **up, counted_from="first").verdict.kind is Kind.PASSED


@pytest.mark.parametrize(
    ("values", "keys", "verdict"),
    [
        ([1, 2, 2, 3], {"direction": "increasing"}, Kind.PASSED),
        ([1, 2, 2, 3], {"direction": "increasing", "strict": True}, Kind.FAILED),
        ([1, 2, 1.9, 3], {"direction": "increasing"}, Kind.FAILED),
        ([3, 2, 2, 1], {"direction": "decreasing"}, Kind.PASSED),
        ([3, 2, 2, 1], {"direction": "decreasing", "strict": True}, Kind.FAILED),
        ([3, 2, 2.1, 1], {"direction": "decreasing"}, Kind.FAILED),
        ([3, 2, 1], {"direction": "increasing"}, Kind.FAILED),
        ([9, 1, 2, 3], {"direction": "increasing", "strict": True, "window": 3}, Kind.PASSED),
        ([9, 1, 2, 3], {"direction": "increasing", "strict": True, "window": 4}, Kind.FAILED),
        ([1], {"direction": "increasing"}, Kind.FAILED),
    ],
)
def test_monotone(
    hold_series: Callable[..., CheckResult], values: list[Any], keys: dict[str, Any], verdict: Kind
) -> None:
    assert hold_series(values, kind="monotone", **keys).verdict.kind is verdict


def test_two_points_have_no_trend(hold_series: Callable[..., CheckResult]) -> None:
    result = hold_series([1, 1], kind="trend", max=1)

    assert result.verdict.reason == "'m' has 2 recorded points, and 3 are needed"


def test_a_nan_before_the_window_spoils_the_series(hold_series: Callable[..., CheckResult]) -> None:
    for kind in ("median", "mean"):
        result = hold_series([math.nan, 1, 1, 1], kind=kind, max=2, window=2)
        assert result.verdict.kind is Kind.FAILED


def test_sums_that_leave_the_range_of_a_float_fail(hold_series: Callable[..., CheckResult]) -> None:
    huge = [1.7e308] * 4

    for check in ({"kind": "mean", "min": 0}, {"kind": "median", "min": 0}):
        result = hold_series(huge, **check)
        assert "leaves the range of a float" in result.verdict.reason
    swing = hold_series([-1.7e308] * 3 + [1.7e308] * 3, kind="trend", min=0)
    assert "leaves the range of a float" in swing.verdict.reason
