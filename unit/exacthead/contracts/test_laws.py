"""Law 5, tried with any data: numbers are checked as data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exacthead.contracts.load import kinds
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.contracts.evaluate import CheckResult

# How long an example takes on a busy machine says nothing about its truth.
LAW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

# One check of each kind that looks at numbers, as forgiving as its kind allows.
NUMERIC: dict[str, dict[str, Any]] = {
    "equals": {"value": 0, "tolerance": 1e300},
    "between": {"min": -1e308},
    "finite": {},
    "non_zero": {},
    "positive": {},
    "negative": {},
    "one_of": {"values": [1, 2, 3]},
    "monotone": {"direction": "increasing"},
    "median": {"min": -1e308},
    "mean": {"min": -1e308},
    "ratio": {"min": 0, "max_ratio": 0.99},
    "trend": {"min": -1e308},
    "opposite": {"other": "o", "tolerance": 1e300},
}
TEXTS: dict[str, dict[str, Any]] = {
    "text_equals": {"value": "a"},
    "same_as": {"other": "o"},
    "differs_from": {"other": "o"},
}
PRESENCE = {"count", "present_at", "recorded_steps"}
# Kinds that demand something of each point by itself.
UNIVERSAL = ("equals", "between", "finite", "non_zero", "positive", "negative", "one_of")

NOT_NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, True, False, "1", "nan", 10**400])
NUMBERS = st.integers(-5, 5) | st.floats(-1e6, 1e6)


def put(values: list[Any], value: Any, at: int) -> list[Any]:
    at %= len(values) + 1
    return [*values[:at], value, *values[at:]]


def test_every_kind_is_tried() -> None:
    assert set(NUMERIC) | set(TEXTS) | PRESENCE == set(kinds())


@pytest.mark.parametrize("kind", NUMERIC)
@LAW
@given(
    values=st.lists(NUMBERS, max_size=6), spoiler=NOT_NUMBERS, at=st.integers(0, 6), data=st.data()
)
def test_what_is_no_finite_number_never_passes_wherever_it_stands(
    *,
    hold: Callable[..., CheckResult],
    kind: str,
    values: list[Any],
    spoiler: Any,
    at: int,
    data: st.DataObject,
) -> None:
    spoiled = put(values, spoiler, at)
    rows = [{"step": step, "m": value, "o": 1} for step, value in enumerate(spoiled)]
    keys = dict(NUMERIC[kind])
    fields = kinds()[kind].model_fields
    if "step" in fields and data.draw(st.booleans()):
        keys["step"] = data.draw(st.integers(0, len(spoiled) - 1))
    if "window" in fields and data.draw(st.booleans()):
        keys["window"] = data.draw(st.integers(3, 6))

    assert hold(rows, kind=kind, metric="m", **keys).verdict.kind is Kind.FAILED


@LAW
@given(values=st.lists(NUMBERS, max_size=3), spoiler=NOT_NUMBERS, at=st.integers(0, 3))
def test_what_is_no_finite_number_spoils_the_other_metric_too(
    hold: Callable[..., CheckResult], values: list[Any], spoiler: Any, at: int
) -> None:
    rows = [
        {"step": step, "m": 1, "o": value} for step, value in enumerate(put(values, spoiler, at))
    ]

    check = hold(rows, kind="opposite", metric="m", other="o", tolerance=1e300)

    assert check.verdict.kind is Kind.FAILED


@pytest.mark.parametrize("kind", TEXTS)
@LAW
@given(
    values=st.lists(st.just("a"), max_size=3),
    spoiler=st.sampled_from([0, 1, 1.5, math.nan, True, False]),
    at=st.integers(0, 3),
)
def test_what_is_no_text_never_passes_as_one(
    hold: Callable[..., CheckResult], kind: str, values: list[Any], spoiler: Any, at: int
) -> None:
    other = "a" if kind == "same_as" else "b"
    spoiled = put(values, spoiler, at)
    rows = [{"step": step, "m": value, "o": other} for step, value in enumerate(spoiled)]

    assert hold(rows, kind=kind, metric="m", **TEXTS[kind]).verdict.kind is Kind.FAILED
    clean = [{**row, "m": "a"} for row in rows]
    assert hold(clean, kind=kind, metric="m", **TEXTS[kind]).verdict.kind is Kind.PASSED


@pytest.mark.parametrize("kind", UNIVERSAL)
@LAW
@given(values=st.lists(NUMBERS, min_size=1, max_size=6), added=NUMBERS, at=st.integers(0, 6))
def test_one_more_point_never_turns_a_failure_into_a_pass(
    hold_series: Callable[..., CheckResult], kind: str, values: list[Any], added: Any, at: int
) -> None:
    keys = {"equals": {"value": 1, "tolerance": 2}, "between": {"min": -1, "max": 2}}.get(
        kind, NUMERIC[kind]
    )

    before = hold_series(values, kind=kind, **keys).verdict.kind
    alone = hold_series([added], kind=kind, **keys).verdict.kind
    after = hold_series(put(values, added, at), kind=kind, **keys).verdict.kind

    assert (after is Kind.PASSED) == (before is Kind.PASSED and alone is Kind.PASSED)


@LAW
@given(value=st.integers(-3, 3) | st.floats(-3, 3) | st.booleans() | st.text(max_size=2))
def test_an_integer_is_only_ever_equal_to_itself(
    hold_series: Callable[..., CheckResult], value: Any
) -> None:
    check = hold_series([value], kind="equals", value=1, integer=True)

    assert (check.verdict.kind is Kind.PASSED) == (type(value) is int and value == 1)


@LAW
@given(value=st.integers() | st.floats() | st.booleans() | st.text())
def test_a_check_on_nothing_never_passes(hold: Callable[..., CheckResult], value: Any) -> None:
    for kind, keys in (NUMERIC | TEXTS).items():
        result = hold([{"step": 1, "other": value}], kind=kind, metric="m", **keys)
        assert result.verdict.kind is Kind.FAILED


@LAW
@given(values=st.lists(NUMBERS, min_size=3, max_size=8), shift=st.floats(-100, 100))
def test_a_trend_does_not_depend_on_the_level(
    hold_series: Callable[..., CheckResult], values: list[Any], shift: float
) -> None:
    def growth(series: list[Any]) -> float:
        return float(hold_series(series, kind="trend", min=-1e300).observed.split()[0])

    assert growth([v + shift for v in values]) == pytest.approx(growth(values), abs=1e-3, rel=1e-6)
