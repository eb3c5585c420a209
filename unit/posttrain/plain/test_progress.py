from __future__ import annotations

import pytest

from posttrain.metrics.progress import SAID, progress
from posttrain.metrics.table import find


def test_a_step_is_told_in_one_line() -> None:
    metrics = {
        "timing/step": 3.456,
        "train/reward/mean": 0.25,
        "validation/accuracy": 1 / 3,
        "train/loss": -0.0123,
        "train/grad_norm": 1.5,
        "train/token_mult_prob_error": 1.0000004,
        "policy/checksum_after_step": "ab",
    }

    assert progress(7, 60, metrics) == (
        "step 7 of 60: reward 0.250, validation 0.333, loss -1.23e-02, gradient norm 1.5,"
        " parity 1.0000004, 3.46 s"
    )


def test_what_was_not_recorded_is_not_told() -> None:
    assert progress(1, 2, {"train/loss": float("nan")}) == "step 1 of 2: loss +nan"


@pytest.mark.parametrize("name", [name for name, _ in SAID])
def test_it_tells_declared_metrics(name: str) -> None:
    assert find(name).name == name
