"""Kinds that look at single points: numbers, texts, pairs of metrics, presence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.contracts.evaluate import CheckResult

BIG = 2**53


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ({"kind": "equals", "value": 0.5}, [0.5], [0.5000001, 0.49, -0.5]),
        ({"kind": "equals", "value": 1}, [1, 1.0], [0, 2, 1.1]),
        ({"kind": "equals", "value": 0.0}, [0, 0.0, -0.0], [5e-324]),
        ({"kind": "equals", "value": BIG + 1}, [BIG + 1], [BIG, float(BIG)]),
        ({"kind": "equals", "value": 1.0, "tolerance": 0.25}, [0.75, 1, 1.25], [0.74, 1.26]),
        ({"kind": "between", "min": 1.0, "max": 2}, [1, 1.5, 2.0], [0.999, 2.001]),
        ({"kind": "between", "min": 1, "min_inclusive": False}, [1.0001, 1e300], [1, 0]),
        ({"kind": "between", "max": 1, "max_inclusive": False}, [0.999, -1e300], [1, 2]),
        ({"kind": "between", "min": 3, "max": 3}, [3], [2.999, 3.001]),
        ({"kind": "finite"}, [0, -1, 1e308], []),
        ({"kind": "non_zero"}, [1, -1, 5e-324], [0, 0.0, -0.0]),
        ({"kind": "positive"}, [1, 5e-324], [0, -0.0, -1]),
        ({"kind": "negative"}, [-1, -5e-324], [0, 0.0, 1]),
        ({"kind": "one_of", "values": [1, 2.5]}, [1, 1.0, 2.5], [2, 1.5]),
    ],
)
def test_each_kind_of_number(
    hold_series: Callable[..., CheckResult], check: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    def verdicts(values: list[Any]) -> list[Kind]:
        return [hold_series([value], **check).verdict.kind for value in values]

    assert verdicts(good) == [Kind.PASSED] * len(good)
    assert verdicts(bad) == [Kind.FAILED] * len(bad)
    assert hold_series(good, **check).verdict.kind is Kind.PASSED
    for value in bad:
        assert hold_series([*good, value, *good], **check).verdict.kind is Kind.FAILED
    no_numbers = [math.nan, math.inf, -math.inf, True, False, "1", "", 10**400]
    assert verdicts(no_numbers) == [Kind.FAILED] * len(no_numbers)


@pytest.mark.parametrize("acknowledged", [[], True, "2", 0, 1.5, 2.0, 3, None, {"count": 2}])
def test_only_the_exact_expected_count_of_acknowledgements_passes(
    hold_series: Callable[..., CheckResult], acknowledged: Any
) -> None:
    check = {"kind": "equals", "value": 2, "integer": True}

    assert hold_series([2], **check).verdict.kind is Kind.PASSED
    assert hold_series([acknowledged], **check).verdict.kind is Kind.FAILED


def test_a_failed_number_is_named_with_its_step_and_share(
    hold_series: Callable[..., CheckResult],
) -> None:
    result = hold_series([1.0, 3.5, 1.0, 4.0], kind="between", min=0, max=2)

    assert result.verdict.reason == "'m' is 3.5 at step 2, wanted >= 0 and <= 2 (2 of 4 points)"
    assert (result.observed, result.bound) == ("3.5", ">= 0 and <= 2")


def test_a_pinned_step_is_the_only_one_that_counts_and_must_be_there(
    hold_series: Callable[..., CheckResult],
) -> None:
    check = {"kind": "equals", "value": 2}

    assert hold_series([1, 2, 3], **check).verdict.kind is Kind.FAILED
    assert hold_series([1, 2, 3], step=2, **check).verdict.kind is Kind.PASSED
    missing = hold_series([2, 2, 2], step=4, **check)
    assert missing.verdict.reason == "'m' has no point at step 4; it has steps 1, 2, 3"


def test_a_nan_at_another_step_spoils_the_series(hold_series: Callable[..., CheckResult]) -> None:
    result = hold_series([2, math.nan], kind="equals", value=2, step=1)

    assert result.verdict.reason == "'m' at step 2 is NaN, which is not a finite number"
    assert result.observed == "NaN at step 2 of 2 points"


def test_a_metric_that_is_not_there_is_answered_with_the_nearest(
    hold: Callable[..., CheckResult],
) -> None:
    rows = [{"step": 1, "train/loss": 1.0, "train/lr": 0.1}]

    result = hold(rows, kind="finite", metric="train/los")

    assert result.verdict.reason == (
        "no metric 'train/los' is recorded; did you mean 'train/loss'?"
    )
    assert result.observed == "nothing"
    nothing = hold([{"step": 1}], kind="finite", metric="train/loss")
    assert nothing.verdict.reason.endswith("no metric is recorded")


def test_texts_equal_only_the_same_text(hold_series: Callable[..., CheckResult]) -> None:
    check = {"kind": "text_equals", "value": "2"}

    assert hold_series(["2", "2"], **check).verdict.kind is Kind.PASSED
    for value in (2, 2.0, "2 ", "", True):
        assert hold_series(["2", value], **check).verdict.kind is Kind.FAILED


def test_one_of_texts(hold_series: Callable[..., CheckResult]) -> None:
    check = {"kind": "one_of", "values": ["cpu", "true", "1"]}

    assert hold_series(["cpu", "1"], **check).verdict.kind is Kind.PASSED
    for value in (1, True, "cuda", "CPU"):
        assert hold_series([value], **check).verdict.kind is Kind.FAILED


@pytest.mark.parametrize(
    ("one", "two", "same", "differs"),
    [
        ("aa", "aa", Kind.PASSED, Kind.FAILED),
        ("aa", "ab", Kind.FAILED, Kind.PASSED),
        ("", "", Kind.FAILED, Kind.FAILED),
        ("", "aa", Kind.FAILED, Kind.FAILED),
        ("aa", "", Kind.FAILED, Kind.FAILED),
        (" ", "aa", Kind.FAILED, Kind.FAILED),
        (1, 1, Kind.FAILED, Kind.FAILED),
        (1, "1", Kind.FAILED, Kind.FAILED),
        (True, False, Kind.FAILED, Kind.FAILED),
    ],
)
def test_two_checksums(
    hold: Callable[..., CheckResult], one: Any, two: Any, same: Kind, differs: Kind
) -> None:
    rows = [{"step": 1, "a": one, "b": two}]

    assert hold(rows, kind="same_as", metric="a", other="b").verdict.kind is same
    assert hold(rows, kind="differs_from", metric="a", other="b").verdict.kind is differs


def test_checksums_that_share_their_first_digits_are_written_out(
    hold: Callable[..., CheckResult],
) -> None:
    one, two = "a" * 63 + "0", "a" * 63 + "1"

    result = hold([{"step": 1, "x": one, "y": two}], kind="same_as", metric="x", other="y")

    assert result.verdict.reason == f"at step 1 'x' is '{one}' and 'y' is '{two}'"


def test_two_metrics_must_have_the_same_steps(hold: Callable[..., CheckResult]) -> None:
    rows = [{"step": 1, "a": "x", "b": "x"}, {"step": 2, "a": "x"}]
    pair = {"metric": "a", "other": "b"}

    assert hold(rows, kind="same_as", **pair).verdict.reason == (
        "at step 2 'a' is recorded and 'b' is not"
    )
    assert hold(rows, kind="same_as", metric="b", other="a").verdict.kind is Kind.FAILED
    assert hold(rows, kind="same_as", step=1, **pair).verdict.kind is Kind.PASSED
    assert hold(rows, kind="same_as", step=2, **pair).verdict.kind is Kind.FAILED


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        (-0.7, 0.7, Kind.PASSED),
        (0.7, -0.7, Kind.PASSED),
        (-0.7, 0.75, Kind.PASSED),
        (-0.7, 0.81, Kind.FAILED),
        (0.7, 0.7, Kind.FAILED),
        (0.0, 0.0, Kind.FAILED),
        (-0.05, 0.0, Kind.FAILED),
        (-0.01, -0.01, Kind.FAILED),
        (-math.inf, math.inf, Kind.FAILED),
        (-1e308, 1.7e308, Kind.FAILED),
        (True, -1, Kind.FAILED),
    ],
)
def test_opposite_numbers(
    hold: Callable[..., CheckResult], one: Any, two: Any, verdict: Kind
) -> None:
    rows = [{"step": 1, "min": one, "max": two}]

    result = hold(rows, kind="opposite", metric="min", other="max", tolerance=0.1)

    assert result.verdict.kind is verdict


@pytest.mark.parametrize(
    ("check", "points", "verdict"),
    [
        ({"value": 3}, 3, Kind.PASSED),
        ({"value": 3}, 2, Kind.FAILED),
        ({"value": 3}, 4, Kind.FAILED),
        ({"min": 2, "max": 3}, 2, Kind.PASSED),
        ({"min": 2, "max": 3}, 1, Kind.FAILED),
        ({"min": 2, "min_inclusive": False}, 2, Kind.FAILED),
        ({"value": 0}, 1, Kind.FAILED),
    ],
)
def test_recorded_points_are_counted_not_steps(
    hold: Callable[..., CheckResult], check: dict[str, Any], points: int, verdict: Kind
) -> None:
    rows = [{"step": step * 10, "m": "any"} for step in range(points)]
    rows += [{"step": 1000, "other": 1}]

    assert hold(rows, kind="count", metric="m", **check).verdict.kind is verdict


def test_no_point_can_be_demanded(hold: Callable[..., CheckResult]) -> None:
    assert hold([{"step": 1}], kind="count", metric="m", value=0).verdict.kind is Kind.PASSED
    assert hold([{"step": 1}], kind="count", metric="m", min=1).verdict.kind is Kind.FAILED


def test_points_at_steps(hold: Callable[..., CheckResult]) -> None:
    rows = [{"step": step, "m": 1} for step in (1, 5, 9)]
    check = {"kind": "present_at", "metric": "m"}

    assert hold(rows, steps=[1, 9], **check).verdict.kind is Kind.PASSED
    assert hold(rows, steps=[1, 2, 3], **check).verdict.reason == "'m' has no point at steps 2, 3"
    assert hold(rows, steps=[9, 5, 1], exactly=True, **check).verdict.kind is Kind.PASSED
    assert hold(rows, steps=[1, 9], exactly=True, **check).verdict.reason == (
        "'m' also has a point at step 5"
    )


def test_the_steps_of_the_file(hold: Callable[..., CheckResult]) -> None:
    rows = [{"step": 1, "m": 1}, {"step": 2}]

    assert hold(rows, kind="recorded_steps", steps=[1, 2]).verdict.kind is Kind.PASSED
    assert hold(rows, kind="recorded_steps", steps=[1]).verdict.kind is Kind.FAILED
    assert hold(rows, kind="recorded_steps", steps=[1, 2, 3]).verdict.kind is Kind.FAILED
