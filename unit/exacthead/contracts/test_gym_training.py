"""The main job's own contract, against metrics that are right and against each way to be wrong.

And that of the same step with generation apart, which is the same but for its one worker.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.contracts.evaluate import ContractResult, evaluate
from exacthead.contracts.load import load, metrics_named
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from exacthead.contracts.model import Contract

FOLDER = Path(__file__).parents[3] / "functional"
CONTRACT = load(FOLDER / "gym_training.contract.toml")
SPLIT = load(FOLDER / "gym_training_split.contract.toml")
ONE_STEP = load(FOLDER / "one_step.contract.toml")
BEFORE, AFTER = "1f" * 32, "2e" * 32
RIGHT: dict[str, Any] = {
    "step": 1,
    "train/reward/min": 0.0,
    "train/reward/max": 1.0,
    "train/reward/mean": 0.5,
    "train/advantages/min": -0.99999988,
    "train/advantages/max": 0.99999982,
    "train/optimizer_steps": 1,
    "train/loss": -1.2e-7,
    "train/grad_norm": 0.31,
    "train/lr": 1e-4,
    "train/token_mult_prob_error": 1.0000014,
    "train/generation_kl_k3": 2.1e-12,
    "train/masked_sequences": 0,
    "train/weight_version": 0,
    "refit/generation_workers_updated": 2,
    "refit/transport": "shared_memory",
    "refit/weight_version": 1,
    "policy/checksum_before_step": BEFORE,
    "policy/checksum_after_step": AFTER,
    "generation/0/checksum_before_refit": BEFORE,
    "generation/1/checksum_before_refit": BEFORE,
    "generation/0/checksum_after_refit": AFTER,
    "generation/1/checksum_after_refit": AFTER,
    "validation/accuracy": 0.5,
    "timing/generation": 1.9,
    "timing/validation": 0.8,
}


RIGHT_SPLIT = {
    name: value for name, value in RIGHT.items() if not name.startswith("generation/1/")
} | {"refit/generation_workers_updated": 1, "refit/transport": "broadcast"}


def evaluated(
    tmp_path: Path, *rows: dict[str, Any], contract: Contract = CONTRACT
) -> ContractResult:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return evaluate(contract, path)


def test_right_metrics_pass(tmp_path: Path) -> None:
    result = evaluated(tmp_path, RIGHT)

    assert {check.name: check.verdict.kind for check in result.checks} == dict.fromkeys(
        (check.name for check in CONTRACT.checks), Kind.PASSED
    )


def test_with_generation_apart_the_same_is_promised_of_one_worker(tmp_path: Path) -> None:
    shared = set(ONE_STEP.checks)
    assert shared == set(CONTRACT.checks) & set(SPLIT.checks)
    assert len(SPLIT.checks) - len(shared) == 2
    assert metrics_named(SPLIT) == set(RIGHT_SPLIT) - {"step"}
    right = evaluated(tmp_path, RIGHT_SPLIT, contract=SPLIT)
    assert right.verdict.kind is Kind.PASSED
    for change in ({"refit/generation_workers_updated": 2}, {"refit/transport": "shared_memory"}):
        wrong = evaluated(tmp_path, RIGHT_SPLIT | change, contract=SPLIT)
        assert [check.metric for check in wrong.of_kind(Kind.FAILED)] == list(change)


def test_the_contract_reads_exactly_these_metrics() -> None:
    assert metrics_named(CONTRACT) == set(RIGHT) - {"step"}


@pytest.mark.parametrize("name", sorted(set(RIGHT) - {"step"}))
@pytest.mark.parametrize("wrong", [None, math.nan, math.inf, True, "", -7.5])
def test_no_metric_may_be_missing_or_wrong(tmp_path: Path, name: str, wrong: Any) -> None:
    if wrong == -7.5:
        # Any finite loss is right, and any gradient norm but 0.
        wrong = {"train/loss": -math.inf, "train/grad_norm": 0.0}.get(name, wrong)
    row = {key: value for key, value in RIGHT.items() if key != name}

    result = evaluated(tmp_path, row if wrong is None else {**row, name: wrong})

    assert result.verdict.kind is Kind.FAILED
    assert all(name in check.metric for check in result.of_kind(Kind.FAILED))


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"train/reward/mean": 0.50001}, "reward mean is 0.5"),
        (
            {"train/advantages/min": 0.0, "train/advantages/max": 0.0},
            "one advantage is positive",
        ),
        (
            {"train/advantages/max": 1.5},
            "the advantages have equal magnitude and opposite sign",
        ),
        ({"train/optimizer_steps": 2}, "exactly one optimizer step"),
        ({"train/optimizer_steps": 1.0}, "exactly one optimizer step"),
        ({"train/grad_norm": 0.0}, "the gradient norm is finite and not 0"),
        ({"train/lr": 0.0}, "the learning rate is finite and positive"),
        (
            {"train/token_mult_prob_error": 1.001},
            "generation and policy agree on the tokens' probabilities",
        ),
        (
            {"train/token_mult_prob_error": 0.999},
            "generation and policy agree on the tokens' probabilities",
        ),
        ({"train/generation_kl_k3": 2e-6}, "no divergence of generation from the policy"),
        ({"train/masked_sequences": 1}, "no sequence is left out of the step"),
        (
            {"refit/generation_workers_updated": 1},
            "both generation workers acknowledged the refit",
        ),
        (
            {"generation/1/checksum_after_refit": BEFORE},
            "generation worker 1 serves the updated weights",
        ),
        (
            {"generation/0/checksum_before_refit": AFTER},
            "generation worker 0 sampled with the policy's weights",
        ),
        ({"train/weight_version": 1}, "the step was sampled with the first weights"),
        ({"refit/weight_version": 0}, "generation serves the weights after the first step"),
        ({"timing/validation": 0.0}, "validation took time"),
    ],
)
def test_each_fault_fails_its_own_check(
    tmp_path: Path, change: dict[str, Any], failed: str
) -> None:
    result = evaluated(tmp_path, {**RIGHT, **change})

    assert failed in {check.name for check in result.of_kind(Kind.FAILED)}


def test_a_step_that_changed_nothing_is_seen_although_all_checksums_agree(tmp_path: Path) -> None:
    frozen = {name: BEFORE for name in RIGHT if "checksum" in name}

    result = evaluated(tmp_path, {**RIGHT, **frozen})

    assert [check.name for check in result.of_kind(Kind.FAILED)] == [
        "the optimizer step changed the policy's weights"
    ]


def test_log_probs_of_another_temperature_break_the_parity_bound(tmp_path: Path) -> None:
    def log_probs(temperature: float) -> list[float]:
        scaled = [logit / temperature for logit in (2.0, 1.5, -0.5, 0.25)]
        total = math.log(math.fsum(map(math.exp, scaled)))
        return [logit - total for logit in scaled]

    def error(generation: list[float], policy: list[float]) -> float:
        ratios = [math.exp(abs(a - b)) for a, b in zip(generation, policy, strict=True)]
        return math.fsum(ratios) / len(ratios)

    name = "train/token_mult_prob_error"
    same = evaluated(tmp_path, {**RIGHT, name: error(log_probs(0.6), log_probs(0.6))})
    raw = evaluated(tmp_path, {**RIGHT, name: error(log_probs(1.0), log_probs(0.6))})

    assert same.verdict.kind is Kind.PASSED
    assert [check.metric for check in raw.of_kind(Kind.FAILED)] == [name]


@pytest.mark.parametrize("rows", [[{"step": 1}, {"step": 2}], [{"step": 0}], [{"step": 2}]])
def test_exactly_one_point_at_step_1(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    result = evaluated(tmp_path, *({**RIGHT, **row} for row in rows))

    assert "exactly one step is recorded" in {c.name for c in result.of_kind(Kind.FAILED)}
