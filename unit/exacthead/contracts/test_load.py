from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.contracts.load import kinds, load, metrics_named, parse
from exacthead.contracts.model import Between, Equals
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path

FINITE = {"name": "a", "kind": "finite", "metric": "m"}


def problem_of(*checks: Any) -> str:
    with pytest.raises(HarnessError) as caught:
        parse({"check": list(checks)}, "test")
    return caught.value.found


def test_a_contract_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "gym_training.contract.toml"
    path.write_text(
        '[[check]]\nname = "low"\nkind = "equals"\nmetric = "a>b"\nvalue = 1\n'
        '[[check]]\nname = "high"\nkind = "between"\nmetric = "c"\nmin = 0.5\nstep = 3\n',
        encoding="utf-8",
    )

    contract = load(path)

    assert contract.name == "gym_training"
    assert contract.checks == (
        Equals(name="low", kind="equals", metric="a>b", value=1),
        Between(name="high", kind="between", metric="c", min=0.5, step=3),
    )
    first = contract.checks[0]
    assert isinstance(first, Equals)
    assert type(first.value) is int


def test_a_missing_contract_and_broken_toml_are_errors(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such file"):
        load(tmp_path / "none.contract.toml")
    broken = tmp_path / "broken.contract.toml"
    broken.write_text("[[check]\n", encoding="utf-8")
    with pytest.raises(HarnessError, match="line 1"):
        load(broken)


@pytest.mark.parametrize(
    "content",
    [
        f"check = {'9' * 5000}".encode(),
        f"check = {'[' * 5000}{']' * 5000}".encode(),
        b'[[check]]\nname = "\xff"\n',
        b"check = 1979-13-01",
    ],
)
def test_whatever_a_contract_file_holds_the_error_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.contract.toml"
    path.write_bytes(content)
    with pytest.raises(HarnessError, match=r"read .*/odd\.contract\.toml"):
        load(path)
    with pytest.raises(HarnessError, match=f"read {tmp_path}"):
        load(tmp_path)


def test_a_byte_order_mark_and_foreign_line_ends_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "windows.contract.toml"
    path.write_bytes(
        b'\xef\xbb\xbf[[check]]\r\nname = "low"\r\nkind = "finite"\r\nmetric = "a"\r\n'
    )

    assert [check.name for check in load(path).checks] == ["low"]


@pytest.mark.parametrize("key", ["value", "tolerance"])
def test_an_integer_beyond_every_float_bounds_nothing(key: str) -> None:
    check = {"name": "a", "kind": "equals", "metric": "m", "value": 1, "tolerance": 1}

    assert problem_of(check | {key: 10**400}).endswith(f"{key}: it is beyond the range of a float")


@pytest.mark.parametrize("raw", [{}, {"check": []}, {"check": {}}, {"check": "all"}])
def test_a_contract_without_a_check_is_an_error(raw: dict[str, Any]) -> None:
    with pytest.raises(HarnessError, match="holds no \\[\\[check\\]\\]"):
        parse(raw, "test")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(HarnessError, match="chekc: unknown key; did you mean 'check'"):
        parse({"chekc": [FINITE]}, "test")
    assert problem_of({**FINITE, "stpe": 1}) == (
        "\n    check 1 ('a').stpe: unknown key; did you mean 'step'?"
    )
    assert "unknown kind 'finit'; did you mean 'finite'?" in problem_of({**FINITE, "kind": "finit"})
    assert "'kind' is missing; known: between, " in problem_of({"name": "a", "metric": "m"})


def test_all_problems_are_named_at_once() -> None:
    found = problem_of(
        {**FINITE, "kind": "equals"},
        {**FINITE, "name": "b", "step": True},
        3,
    )

    assert found.split("\n    ")[1:] == [
        "check 1 ('a').value: Field required",
        "check 2 ('b').step: Input should be a valid integer",
        "check 3: Input should be a valid dictionary or object to extract fields from",
    ]


def test_a_name_is_used_once_and_says_something() -> None:
    assert problem_of(FINITE, {**FINITE, "metric": "n"}) == "these names are used twice: 'a'"
    assert "('a')" not in problem_of({**FINITE, "name": " "})
    assert ".name: " in problem_of({**FINITE, "name": " "})


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"kind": "equals", "value": "1"}, ".value: Input should be a valid number"),
        ({"kind": "equals", "value": True}, ".value: Input should be a valid number"),
        ({"kind": "equals", "value": math.nan}, ".value: Input should be a finite number"),
        ({"kind": "equals", "value": 1, "tolerance": -1}, ".tolerance: "),
        ({"kind": "equals", "value": 1.5, "integer": True}, "'integer' is asked for"),
        ({"kind": "equals", "value": 1, "tolerance": 1, "integer": True}, "take 'tolerance' away"),
        ({"kind": "text_equals", "value": 1}, ".value: Input should be a valid string"),
        ({"kind": "between"}, "give 'min', 'max' or both"),
        ({"kind": "between", "min": math.inf}, ".min: Input should be a finite number"),
        ({"kind": "between", "min": 2, "max": 1}, "no number is >= 2 and <= 1"),
        (
            {"kind": "between", "min": 1, "max": 1, "max_inclusive": False},
            "no number is >= 1 and < 1",
        ),
        ({"kind": "between", "min": 1, "max_inclusive": False}, "'max_inclusive' without 'max'"),
        ({"kind": "count", "value": 1, "min": 1}, "give 'value', or 'min' and 'max', not both"),
        ({"kind": "count", "value": "2"}, ".value: Input should be a valid integer"),
        ({"kind": "count"}, "give 'min', 'max' or both"),
        ({"kind": "present_at", "steps": []}, ".steps: "),
        ({"kind": "present_at", "steps": [1, "2"]}, ".steps.1: Input should be a valid integer"),
        ({"kind": "present_at", "steps": [-1]}, ".steps.0: "),
        ({"kind": "one_of", "values": []}, ".values: "),
        ({"kind": "one_of", "values": ["a", 1]}, "'values' mixes texts and numbers"),
        ({"kind": "median", "max": 1, "window": 0}, ".window: "),
        ({"kind": "median", "max": 1, "counted_from": "first"}, "'counted_from' without 'window'"),
        (
            {"kind": "median", "max": 1, "window": 3, "counted_from": "middle"},
            ".counted_from: Input should be 'first' or 'last'",
        ),
        ({"kind": "trend", "max": 1, "window": 2}, ".window: "),
        ({"kind": "monotone", "direction": "increasing", "window": 1}, ".window: "),
        ({"kind": "monotone", "direction": "up"}, ".direction: "),
        ({"kind": "ratio", "max": 1, "max_ratio": 1.0}, ".max_ratio: "),
        ({"kind": "same_as", "other": "m"}, "'metric' and 'other' are the same metric"),
        ({"kind": "median", "max": 1, "step": 1}, ".step: unknown key"),
    ],
)
def test_a_check_that_means_nothing_is_an_error(check: dict[str, Any], problem: str) -> None:
    assert problem in problem_of({"name": "a", "metric": "m", **check})


def test_a_check_on_the_whole_file_takes_no_metric() -> None:
    check = {"name": "a", "kind": "recorded_steps", "metric": "m", "steps": [1]}

    assert "metric: unknown key" in problem_of(check)


def test_every_metric_that_a_contract_reads_is_named() -> None:
    contract = parse(
        {
            "check": [
                FINITE,
                {"name": "b", "kind": "same_as", "metric": "x", "other": "y"},
                {"name": "c", "kind": "recorded_steps", "steps": [1]},
            ]
        },
        "test",
    )

    assert metrics_named(contract) == {"m", "x", "y"}


def test_the_kinds_are_these() -> None:
    assert sorted(kinds()) == [
        "between", "count", "differs_from", "equals", "finite", "mean", "median", "monotone",
        "negative", "non_zero", "one_of", "opposite", "positive", "present_at", "ratio",
        "recorded_steps", "same_as", "text_equals", "trend",
    ]  # fmt: skip
