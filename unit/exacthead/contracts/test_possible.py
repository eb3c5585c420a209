"""Contracts that no run can satisfy, against what the evaluation of checks itself says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exacthead.contracts.load import load, parse
from exacthead.contracts.possible import contradictions

ROOT = Path(__file__).parents[3]


def why(*checks: dict[str, Any]) -> list[str]:
    named = [{"name": f"c{number}", "metric": "m", **check} for number, check in enumerate(checks)]
    for check in named:
        if check["kind"] == "recorded_steps":
            del check["metric"]
    return [each.why for each in contradictions(parse({"check": named}, "x"))]


@pytest.mark.parametrize(
    ("checks", "possible"),
    [
        (({"kind": "equals", "value": 3}, {"kind": "between", "max": 2}), False),
        (({"kind": "equals", "value": 3}, {"kind": "between", "max": 3}), True),
        (
            (
                {"kind": "equals", "value": 3},
                {"kind": "between", "max": 3, "max_inclusive": False},
            ),
            False,
        ),
        (({"kind": "equals", "value": 3, "tolerance": 1}, {"kind": "between", "max": 2}), True),
        (({"kind": "positive"}, {"kind": "between", "max": 0.0}), False),
        (({"kind": "positive"}, {"kind": "negative"}), False),
        (({"kind": "non_zero"}, {"kind": "equals", "value": 0}), False),
        (({"kind": "non_zero"}, {"kind": "between", "min": 0}), True),
        (({"kind": "one_of", "values": [1, 2]}, {"kind": "between", "min": 3}), False),
        (({"kind": "one_of", "values": [1, 4]}, {"kind": "between", "min": 3}), True),
        (({"kind": "text_equals", "value": "a"}, {"kind": "text_equals", "value": "b"}), False),
        (({"kind": "text_equals", "value": "a"}, {"kind": "finite"}), False),
        (({"kind": "text_equals", "value": "a"}, {"kind": "same_as", "other": "n"}), True),
        # Not of one point.
        (
            ({"kind": "equals", "value": 1, "step": 1}, {"kind": "equals", "value": 2, "step": 2}),
            True,
        ),
        (({"kind": "equals", "value": 1, "step": 1}, {"kind": "equals", "value": 2}), False),
        (({"kind": "equals", "value": 1}, {"kind": "equals", "value": 2, "metric": "n"}), True),
        # Steps.
        (({"kind": "recorded_steps", "steps": [1]}, {"kind": "finite", "step": 2}), False),
        (({"kind": "recorded_steps", "steps": [1]}, {"kind": "finite", "step": 1}), True),
        (
            (
                {"kind": "present_at", "steps": [1, 3]},
                {"kind": "recorded_steps", "steps": [1, 2]},
            ),
            False,
        ),
        (
            (
                {"kind": "recorded_steps", "steps": [1]},
                {"kind": "recorded_steps", "steps": [1, 2]},
            ),
            False,
        ),
    ],
)
def test_two_checks_that_rule_each_other_out_are_found(
    checks: tuple[dict[str, Any], ...], *, possible: bool
) -> None:
    assert (why(*checks) == []) is possible


SMALL = st.integers(-3, 3)
RANGES = st.fixed_dictionaries(
    {"kind": st.just("between"), "min": SMALL, "max": SMALL},
    optional={"min_inclusive": st.booleans(), "max_inclusive": st.booleans()},
)
VALUES = st.one_of(
    st.fixed_dictionaries({"kind": st.just("equals"), "value": SMALL, "tolerance": st.just(0)}),
    st.fixed_dictionaries({"kind": st.just("one_of"), "values": st.lists(SMALL, min_size=1)}),
    st.fixed_dictionaries({"kind": st.sampled_from(["positive", "negative", "non_zero"])}),
)


def satisfied(check: dict[str, Any], value: float) -> bool:
    """What a check means, written out once more."""
    match check["kind"]:
        case "between":
            low, high = check["min"], check["max"]
            above = value > low or (check.get("min_inclusive", True) and value == low)
            return above and (value < high or (check.get("max_inclusive", True) and value == high))
        case "equals":
            return bool(value == check["value"])
        case "one_of":
            return value in check["values"]
        case kind:
            return {"positive": value > 0, "negative": value < 0, "non_zero": value != 0}[kind]


@given(first=RANGES, second=st.one_of(RANGES, VALUES))
def test_a_pair_is_found_exactly_when_no_value_satisfies_both(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    quarters = [number / 4 for number in range(-20, 21)]
    for check in (first, second):
        # A range that holds nothing is refused when it is read.
        assume(any(satisfied(check, value) for value in quarters))

    possible = any(satisfied(first, value) and satisfied(second, value) for value in quarters)

    assert (why(first, second) == []) is possible


@pytest.mark.parametrize(
    "path", sorted((ROOT / "functional").glob("*.contract.toml")), ids=lambda path: path.name
)
def test_no_contract_of_this_repository_rules_itself_out(path: Path) -> None:
    assert contradictions(load(path)) == ()
