"""The contracts of the two acceptance jobs hold for what their fixtures promise, and only then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.contracts.evaluate import ContractResult, evaluate
from exacthead.contracts.load import load, metrics_named
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
VERIFIERS = load(ROOT / "functional" / "verifier_acceptance.contract.toml")
ROLLOUTS = load(ROOT / "functional" / "rollout_acceptance.contract.toml")
# Where one more would be no fault: times and speeds, and how unlikely a token can be.
WRONG = {
    "timing/verification": 0.0,
    "timing/generation": 0.0,
    "rollout/seconds/min": 0.0,
    "rollout/tokens_per_second": 0.0,
    "rollout/logprob/min": 0.0,
}
FAULTS = ("prompt", "token", "logprob", "stop", "contiguity", "expectation", "repetition")
PER_PROMPT = 2


def fixture(name: str) -> list[dict[str, Any]]:
    lines = (ROOT / "fixtures" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def verdicts() -> dict[str, Any]:
    """What one right round over the answers records."""
    metrics: dict[str, Any] = {"timing/verification": 1.5}
    for row in fixture("gym_answers.jsonl"):
        name = f"verifier/{row['verifier']}"
        counted = ("rows", "accepted", "rejected", "partly", "mismatches", "failures")
        metrics = {f"{name}/{one}": 0 for one in counted} | metrics
        metrics[f"{name}/rows"] += 1
        kind = {1.0: "accepted", 0.0: "rejected"}.get(row["expected"]["reward"], "partly")
        metrics[f"{name}/{kind}"] += 1
    return metrics


def rollouts() -> dict[str, Any]:
    """What one right round of rollouts records, without what only later rounds do."""
    rows = [row["rollout"] for row in fixture("gym_rollouts.jsonl")]
    stops = [stop for row in rows for stop in row["stops"]]
    return {
        "rollout/rollouts": PER_PROMPT * len(rows),
        "rollout/turns": PER_PROMPT * len(stops),
        "rollout/continued_turns": PER_PROMPT * (len(stops) - len(rows)),
        "rollout/turns_ended": PER_PROMPT * stops.count("end"),
        "rollout/turns_cut": PER_PROMPT * stops.count("length"),
        "rollout/reward/mean": sum(row["reward"] for row in rows) / len(rows),
        "rollout/logprob/min": -3.9,
        "rollout/logprob/max": -0.07,
        "rollout/logprob/mean": -0.6,
        **{f"rollout/{kind}_faults": 0 for kind in FAULTS},
        "rollout/seconds/min": 0.5,
        "rollout/tokens_per_second": 200.0,
        "timing/generation": 1.8,
    }


RIGHT = {
    "verifiers": (VERIFIERS, [verdicts(), verdicts()]),
    "rollouts": (
        ROLLOUTS,
        [rollouts(), rollouts() | {"rollout/repeat_logprob_difference": 2e-7}],
    ),
}


@pytest.fixture
def evaluated(tmp_path: Path) -> Callable[[str, list[dict[str, Any]]], ContractResult]:
    def run(job: str, rounds: list[dict[str, Any]]) -> ContractResult:
        path = tmp_path / "metrics.jsonl"
        lines = [json.dumps({"step": n, **row}) for n, row in enumerate(rounds, start=1)]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return evaluate(RIGHT[job][0], path)

    return run


@pytest.mark.parametrize("job", RIGHT)
def test_what_the_fixtures_promise_passes(job: str, evaluated: Callable[..., Any]) -> None:
    contract, rounds = RIGHT[job]
    result = evaluated(job, rounds)
    assert {check.name: check.verdict.kind for check in result.checks} == dict.fromkeys(
        (check.name for check in contract.checks), Kind.PASSED
    )
    assert metrics_named(contract) == {name for row in rounds for name in row}


@pytest.mark.parametrize(
    ("job", "metric"), [(job, metric) for job, (_, (_, row)) in RIGHT.items() for metric in row]
)
def test_each_metric_of_the_second_round_counts(
    job: str, metric: str, evaluated: Callable[..., Any]
) -> None:
    first, second = RIGHT[job][1]
    spoiled = second | {metric: WRONG.get(metric, second[metric] + 1)}
    result = evaluated(job, [first, spoiled])
    assert [check.name for check in result.checks if check.verdict.kind != Kind.PASSED] != []


@pytest.mark.parametrize("job", RIGHT)
def test_a_round_that_is_missing_fails(job: str, evaluated: Callable[..., Any]) -> None:
    result = evaluated(job, RIGHT[job][1][:1])
    failed = [check.name for check in result.checks if check.verdict.kind != Kind.PASSED]
    assert "two rounds are recorded" in failed
