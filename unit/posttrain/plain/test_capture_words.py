"""Causes, metrics and settings of capture, none of which needs an engine or Gym."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from posttrain.capture.finalize.causes import CAUSES, page, poisons
from posttrain.capture.finalize.metrics import capture_metrics
from posttrain.capture.finalize.words import Finalized
from posttrain.config.token_capture import TokenCapture
from posttrain.metrics.table import METRICS, find
from posttrain.sample import Sample

ROOT = Path(__file__).parents[3]
SAMPLE = Sample(0, (1,), (2,), (-1.0,), 1.0, truncated=False)


def row(seconds: float = 0.1, **fields: Any) -> Finalized:
    return Finalized("id", 0, SAMPLE, seconds=seconds, **fields)


def test_the_documented_causes_are_the_declared_ones() -> None:
    assert page() in (ROOT / "docs/capture.md").read_text(encoding="utf-8")


def test_causes_are_names_that_metrics_take_and_have_a_meaning() -> None:
    for name, cause in CAUSES.items():
        assert re.fullmatch("[a-z0-9_]+", name)
        assert cause.name == name
        assert cause.meaning
        assert "|" not in cause.meaning
        assert find(f"capture/placeholders/{name}").name == "capture/placeholders/<cause>"


def test_only_what_the_ledger_found_poisons() -> None:
    assert poisons("unresolved_parent")
    assert poisons("missing_entry")
    assert not poisons("gate_late")
    assert not poisons("corrupt_digest")


@pytest.mark.parametrize(
    ("sample", "cause"), [(None, None), (SAMPLE, "gate_late"), (None, "no such cause")]
)
def test_a_place_in_a_group_is_a_row_or_a_placeholder_with_a_known_cause(
    sample: Sample | None, cause: str | None
) -> None:
    with pytest.raises(ValueError, match="id: "):
        Finalized("id", 0, sample, cause)


def test_rates_and_latencies_of_nothing_have_no_value() -> None:
    assert capture_metrics([]) == {
        "capture/rows": 0,
        "capture/placeholders": 0,
        "capture/continuations": 0,
        "capture/staged_bytes": 0,
    }
    assert "capture/token_in_rate" not in capture_metrics([row()])


def test_every_metric_is_declared_and_every_declared_one_is_written() -> None:
    finalized = [
        row(continuations=2, token_in=2, staged_bytes=160),
        Finalized("p", 0, cause="unresolved_parent", continuations=1),
        Finalized("q", 0, cause="gate_late"),
    ]
    metrics = capture_metrics(finalized)
    found = {find(name).name for name in metrics}
    assert found == {each.name for each in METRICS if each.name.startswith("capture/")}
    assert metrics["capture/rows"] == 1
    assert metrics["capture/placeholders"] == 2
    assert metrics["capture/placeholders/gate_late"] == 1
    assert metrics["capture/placeholders/unresolved_parent"] == 1
    assert metrics["capture/poisoned/unresolved_parent"] == 1
    assert "capture/poisoned/gate_late" not in metrics
    assert metrics["capture/token_in_rate"] == pytest.approx(2 / 3)
    assert metrics["capture/staged_bytes"] == 160


def test_percentiles_are_values_that_were_measured() -> None:
    metrics = capture_metrics([row(float(number)) for number in range(200, 0, -1)])
    assert metrics["capture/seal_to_row_seconds/p50"] == 100
    assert metrics["capture/seal_to_row_seconds/p99"] == 198
    assert metrics["capture/seal_to_row_seconds/max"] == 200


ON = {"enabled": True, "deadline_s": 2.0, "gate_memory_mb": 900, "turns": 2}
OFF = {"enabled": False, "deadline_s": None, "gate_memory_mb": None, "turns": None}


def test_capture_has_all_of_its_settings_or_none() -> None:
    assert TokenCapture(**ON).wanted == (2.0, 900, 2)
    with pytest.raises(ValueError, match="off"):
        _ = TokenCapture(**OFF).wanted
    for key in ("deadline_s", "gate_memory_mb", "turns"):
        with pytest.raises(ValidationError, match="capture is on; give the"):
            TokenCapture(**ON | {key: None})
        with pytest.raises(ValidationError, match="would ignore it"):
            TokenCapture(**OFF | {key: ON[key]})


@pytest.mark.parametrize(("key", "value"), [("deadline_s", 0.0), ("turns", 0), ("enabled", 1)])
def test_settings_out_of_bounds_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        TokenCapture(**ON | {key: value})


OFF_IMPORTS = """
import importlib, pkgutil, sys
for name in {names!r}:
    importlib.import_module(name)
late = [name for name in sys.modules if name.startswith(("posttrain.capture", "nemo_gym"))]
sys.exit(f"imported: {{late}}" if late else 0)
"""


def test_off_means_that_nothing_of_capture_is_imported_in_the_trainer() -> None:
    names = [
        "posttrain.train",
        "posttrain.controller",
        "posttrain.environment.servers",
        "posttrain.environment.conversations",
        "posttrain.rollout.collect",
        "posttrain.policy.rank",
        "posttrain.generation.group",
        "posttrain.metrics",
        "posttrain.starting",
        "posttrain.serving",
    ]
    if (ROOT / "posttrain/single_controller.py").exists():
        names.append("posttrain.single_controller")
    done = subprocess.run(
        [sys.executable, "-c", OFF_IMPORTS.format(names=names)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
