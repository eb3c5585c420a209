"""The contract of the job `learning`, against a run that learns and against each that does not."""

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

CONTRACT = load(Path(__file__).parents[3] / "functional" / "learning.contract.toml")
STEPS = 60
VALIDATED = {1, *range(5, 61, 5)}
Row = dict[str, Any]


def learned(step: int) -> Row:
    """A step of a run that learns from 0.15 to 0.98, a little up and down on its way."""
    progress = min(step / 45, 1.0)
    before, after = f"{step:064x}", f"{step + 1:064x}"
    return {
        "step": step,
        "train/reward/mean": 0.15 + 0.83 * progress + 0.04 * (-1) ** step * (1 - progress),
        **({"validation/accuracy": 0.15 + 0.75 * progress} if step in VALIDATED else {}),
        "train/optimizer_steps": 1,
        "train/loss": -0.01 * (-1) ** step,
        "train/grad_norm": 0.4,
        "train/token_mult_prob_error": 1.0000004,
        "train/token_mult_prob_error_max": 1.000012,
        "train/masked_sequences": 0,
        "refit/generation_workers_updated": 2,
        "refit/weight_version": step,
        "policy/checksum_before_step": before,
        "policy/checksum_after_step": after,
        **{f"generation/{worker}/checksum_before_refit": before for worker in (0, 1)},
        **{f"generation/{worker}/checksum_after_refit": after for worker in (0, 1)},
    }


def evaluated(tmp_path: Path, rows: list[Row]) -> ContractResult:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return evaluate(CONTRACT, path)


def failed(result: ContractResult) -> set[str]:
    return {check.name for check in result.of_kind(Kind.FAILED)}


def test_a_run_that_learns_passes(tmp_path: Path) -> None:
    rows = [learned(step) for step in range(1, STEPS + 1)]

    assert failed(evaluated(tmp_path, rows)) == set()
    assert metrics_named(CONTRACT) == set(rows[0]) - {"step"}


@pytest.mark.parametrize("name", sorted(set(learned(1)) - {"step"}))
def test_no_metric_may_be_missing_at_any_time(tmp_path: Path, name: str) -> None:
    rows = [learned(step) for step in range(1, STEPS + 1)]

    assert failed(evaluated(tmp_path, [{"step": row["step"]} for row in rows]))
    spoiled = [row | ({name: None} if row["step"] == 30 else {}) for row in rows]
    assert evaluated(tmp_path, spoiled).verdict.kind is Kind.FAILED


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda row: {"train/reward/mean": 0.15 + row["step"] / 100}, "last rewards"),
        (lambda _: {"train/reward/mean": 0.95}, "first rewards"),
        (lambda _: {"train/reward/mean": 0.95}, "the reward rises"),
        (lambda _: {"validation/accuracy": 0.2}, "last validation answers"),
        (lambda _: {"validation/accuracy": 0.2}, "validation accuracy rises"),
        (lambda _: {"validation/accuracy": 0.9}, "first validation answers"),
        (lambda _: {"validation/accuracy": 0.9}, "validation runs at both ends"),
        (
            lambda row: {"train/token_mult_prob_error": 1 + row["step"] * 1.5e-5},
            "does not wear off",
        ),
    ],
)
def test_a_run_that_does_not_learn_or_drifts_fails(
    tmp_path: Path, change: Callable[[Row], Row], found: str
) -> None:
    rows = [learned(step) for step in range(1, STEPS + 1)]

    names = failed(evaluated(tmp_path, [row | change(row) for row in rows]))

    assert [name for name in names if found in name]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"train/token_mult_prob_error": 1.001}, "agree on the tokens'"),
        ({"train/token_mult_prob_error_max": 1.02}, "the worst token"),
        ({"train/optimizer_steps": 0}, "exactly one optimizer step"),
        ({"train/grad_norm": 0.0}, "gradient norm"),
        ({"train/masked_sequences": 1}, "no sequence is left out"),
        ({"refit/generation_workers_updated": 1}, "acknowledged every refit"),
        ({"refit/weight_version": 39}, "the served version"),
        ({"policy/checksum_after_step": f"{40:064x}"}, "changed the policy's weights"),
        ({"generation/0/checksum_before_refit": "0" * 64}, "worker 0 sampled"),
        ({"generation/1/checksum_before_refit": "0" * 64}, "worker 1 sampled"),
        ({"generation/0/checksum_after_refit": "0" * 64}, "worker 0 serves"),
        ({"generation/1/checksum_after_refit": "0" * 64}, "worker 1 serves"),
    ],
)
def test_one_broken_step_in_the_middle_is_enough(tmp_path: Path, change: Row, found: str) -> None:
    rows = [learned(step) for step in range(1, STEPS + 1)]
    rows[39] |= change

    assert [name for name in failed(evaluated(tmp_path, rows)) if found in name]


@pytest.mark.parametrize("steps", [range(1, STEPS), range(1, STEPS + 2), range(2, STEPS + 2)])
def test_sixty_steps_no_more_and_no_less(tmp_path: Path, steps: range) -> None:
    assert "exactly sixty steps are recorded" in failed(
        evaluated(tmp_path, [learned(step) for step in steps])
    )
