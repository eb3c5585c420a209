from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exacthead.contracts.evaluate import (
    CheckResult,
    ContractResult,
    evaluate,
    not_run,
    read_json,
    write_json,
)
from exacthead.contracts.load import parse
from exacthead.errors import HarnessError
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# How long an example takes on a busy machine says nothing about its truth.
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


CONTRACT = parse(
    {
        "check": [
            {"name": "loss", "kind": "finite", "metric": "train/loss"},
            {"name": "accuracy", "kind": "equals", "metric": "validation/accuracy", "value": 0.5},
            {"name": "no reward of 2", "kind": "count", "metric": "reward/2", "value": 0},
        ]
    },
    "two",
)
GOOD = '{"step": 1, "train/loss": -0.25, "validation/accuracy": 0.5}\n'


def verdicts(result: ContractResult) -> dict[str, str]:
    return {check.name: str(check.verdict) for check in result.checks}


def test_all_checks_pass_on_good_metrics(written: Callable[[str], Path]) -> None:
    result = evaluate(CONTRACT, written(GOOD))

    assert result.verdict == Verdict(Kind.PASSED)
    assert result.verdict.green
    assert result.checks[0] == CheckResult(
        "loss", "finite", "train/loss", Verdict(Kind.PASSED), "-0.25", "finite"
    )


def test_the_verdict_counts_the_failures_and_gives_the_first_reason(
    written: Callable[[str], Path],
) -> None:
    path = written('{"step": 1, "train/loss": NaN, "validation/accuracy": 1.0}\n')

    assert str(evaluate(CONTRACT, path).verdict) == (
        "failed(2 of 3 checks failed; first 'loss': "
        "'train/loss' at step 1 is NaN, which is not a finite number)"
    )


def test_a_leg_that_died_fails_what_is_missing_and_reports_the_rest(
    written: Callable[[str], Path],
) -> None:
    path = written('{"step": 1, "train/loss": 0.5}\n')

    result = evaluate(CONTRACT, path, reason_if_missing="the leg crashed: signal 9")

    assert verdicts(result) == {
        "loss": "passed",
        "accuracy": "failed(the leg crashed: signal 9; no metric 'validation/accuracy' is recorded;"
        " known: train/loss)",
        "no reward of 2": "passed",
    }


def test_a_wrong_value_is_not_blamed_on_the_crash(written: Callable[[str], Path]) -> None:
    path = written('{"step": 1, "train/loss": 0.5, "validation/accuracy": 1.0}\n')

    result = evaluate(CONTRACT, path, reason_if_missing="the leg crashed: signal 9")

    assert result.checks[1].verdict.reason == (
        "'validation/accuracy' is 1.0 at step 1, wanted = 0.5"
    )


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_nothing_recorded_fails_every_check(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "metrics.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    what = "missing" if content is None else "empty"

    alone = evaluate(CONTRACT, path)
    crashed = evaluate(CONTRACT, path, reason_if_missing="the leg crashed: out of memory")

    assert set(verdicts(alone).values()) == {
        f"failed(metrics.jsonl is {what}: nothing was recorded)"
    }
    assert set(verdicts(crashed).values()) == {
        f"failed(the leg crashed: out of memory; metrics.jsonl is {what}: nothing was recorded)"
    }


def test_nothing_passes_on_a_broken_file_but_what_was_read_is_shown(
    written: Callable[[str], Path],
) -> None:
    result = evaluate(CONTRACT, written(GOOD + '{"step": 2, "train/loss": 1'))

    assert {check.verdict.kind for check in result.checks} == {Kind.FAILED}
    assert [check.observed for check in result.checks] == ["-0.25", "0.5", "0 points"]
    assert "metrics.jsonl, line 2: it is not JSON" in result.checks[0].verdict.reason


def test_a_name_that_is_given_twice_fails_every_check(written: Callable[[str], Path]) -> None:
    line = '{"step": 1, "train/loss": 1, "validation/accuracy": 0, "validation/accuracy": 0.5}\n'

    result = evaluate(CONTRACT, written(line))

    assert {check.verdict.kind for check in result.checks} == {Kind.FAILED}
    assert "'validation/accuracy' appears twice" in result.checks[1].verdict.reason


def test_a_leg_that_was_never_started_is_not_run_and_not_green() -> None:
    result = not_run(CONTRACT, "its worker could not be built")

    assert result.verdict == Verdict(Kind.NOT_RUN, "its worker could not be built")
    assert not result.verdict.green
    assert {check.verdict for check in result.checks} == {result.verdict}


def test_a_result_without_a_check_is_refused() -> None:
    with pytest.raises(ValueError, match="'two' has no result"):
        ContractResult("two", ())


def test_contract_json_says_it_all(written: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    result = evaluate(CONTRACT, written('{"step": 1, "train/loss": NaN}\n'))

    write_json(result, path)

    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["contract"], data["verdict"]) == ("two", "failed")
    assert data["reason"] == result.verdict.reason
    assert data["checks"][0] == {
        "name": "loss",
        "kind": "finite",
        "metric": "train/loss",
        "verdict": {
            "kind": "failed",
            "reason": "'train/loss' at step 1 is NaN, which is not a finite number",
        },
        "observed": "NaN",
        "bound": "finite",
    }


@LAW
@given(text=st.text(alphabet=st.characters(exclude_categories=())), kind=st.sampled_from(Kind))
def test_contract_json_is_read_back_whatever_the_texts(
    text: str, kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "contract.json"
    verdict = Verdict(kind, f"x{text}")
    result = ContractResult(text, (CheckResult(text, text, text, verdict, text, text),))

    write_json(result, path)

    assert read_json(path) == result


@pytest.mark.parametrize(
    "content", [None, "", "[]", '{"checks": []}', '{"contract": "c", "checks": []}']
)
def test_a_damaged_contract_json_is_an_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "contract.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")

    with pytest.raises(HarnessError, match="missing or damaged"):
        read_json(path)
