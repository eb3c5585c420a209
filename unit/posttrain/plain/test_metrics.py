"""Metrics: declared names, JSON lines, TensorBoard events."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from posttrain.errors import StackError
from posttrain.metrics import MetricsWriter
from posttrain.metrics.table import METRICS, STAGES, TEXT, find, page

ROOT = Path(__file__).parents[3]
CONTRACT_NAMES = (
    "train/reward/min",
    "train/reward/max",
    "train/reward/mean",
    "train/advantages/min",
    "train/advantages/max",
    "train/advantages/mean",
    "train/loss",
    "train/grad_norm",
    "train/lr",
    "train/token_mult_prob_error",
    "train/optimizer_steps",
    "refit/generation_workers_updated",
    "policy/checksum_before_step",
    "policy/checksum_after_step",
    "generation/0/checksum_before_refit",
    "generation/12/checksum_after_refit",
    "validation/accuracy",
    "timing/generation",
    "timing/validation",
)


def lines(run_dir: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def events(run_dir: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag, as TensorBoard itself reads them."""
    accumulator = EventAccumulator(str(run_dir / "tensorboard"))
    accumulator.Reload()
    read = {}
    for tag in accumulator.Tags()["tensors"]:
        read[tag] = [
            (event.step, event.tensor_proto.float_val[0]) for event in accumulator.Tensors(tag)
        ]
    return read


# The table


def test_the_documented_table_is_the_declared_one() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == page()


def test_names_are_declared_once_and_described() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(metric.unit and metric.meaning for metric in METRICS)
    assert all("|" not in metric.meaning + metric.formula for metric in METRICS)


def test_every_name_that_the_contract_needs_is_declared() -> None:
    for name in CONTRACT_NAMES:
        assert find(name).matches(name)


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_every_stage_has_a_metric_in_seconds(stage: str) -> None:
    assert find(f"timing/{stage}").unit == "seconds"


@pytest.mark.parametrize(
    "name",
    [
        "train/los",
        "train/loss\n",
        "generation/<n>/checksum_after_refit",
        "generation/-1/checksum_after_refit",
        "generation/01/checksum_after_refit",
        "generation/x/checksum_after_refit",
        "",
    ],
)
def test_an_undeclared_name_is_refused(name: str) -> None:
    with pytest.raises(StackError, match="no metric of this name"):
        find(name)


def test_an_undeclared_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(StackError, match="did you mean 'train/grad_norm'"):
        find("train/gradnorm")


# JSON lines


def test_a_step_is_one_flat_line_with_the_step_first(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path / "run") as writer:
        writer.write(1, {"train/loss": 0.5, "policy/checksum_after_step": "ab", "refit/bytes": 7})
        writer.write(2, {"train/loss": 0.25})
    text = (tmp_path / "run/metrics.jsonl").read_text()
    assert text == (
        '{"step": 1, "train/loss": 0.5, "policy/checksum_after_step": "ab", "refit/bytes": 7}\n'
        '{"step": 2, "train/loss": 0.25}\n'
    )


def test_a_line_is_on_the_disk_before_the_writer_is_closed(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        for step in (1, 2, 3):
            writer.write(step, {"train/loss": 0.5})
        assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3]
        assert events(tmp_path) == {"train/loss": [(1, 0.5), (2, 0.5), (3, 0.5)]}


def test_numbers_that_are_not_finite_stay_visible(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, {"train/loss": math.nan, "train/grad_norm": math.inf})
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == '{"step": 1, "train/loss": NaN, "train/grad_norm": Infinity}\n'
    read = events(tmp_path)
    assert math.isnan(read["train/loss"][0][1])
    assert read["train/grad_norm"] == [(1, math.inf)]


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(), st.floats(width=32, allow_nan=False)), min_size=1))
def test_every_number_is_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("metrics")
    writer = MetricsWriter(folder)
    for step, value in enumerate(values):
        writer.write(step, {"refit/bytes": value})
    writer.close()
    read = [line["refit/bytes"] for line in lines(folder)]
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


def test_a_number_beyond_single_precision_is_infinite_in_tensorboard_only(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, {"train/loss": 1e300})
    assert lines(tmp_path) == [{"step": 1, "train/loss": 1e300}]
    assert events(tmp_path) == {"train/loss": [(1, math.inf)]}


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("train/loss", "0.5", "a number"),
        ("train/loss", None, "a number"),
        ("train/loss", True, "a number"),
        ("train/loss", [0.5], "a number"),
        ("train/loss", np.float32(0.5), "a number"),
        ("policy/checksum_after_step", 1, "text"),
        ("policy/checksum_after_step", None, "text"),
    ],
)
def test_a_value_of_another_type_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str, value: object, kind: str
) -> None:
    with MetricsWriter(tmp_path) as writer:
        with pytest.raises(StackError, match=f"give {kind}") as caught:
            writer.write(1, {"train/lr": 1.0, name: value})  # type: ignore[dict-item]
        assert name in caught.value.asked
        assert lines(tmp_path) == []
        writer.write(1, {"train/lr": 1.0})
    assert lines(tmp_path) == [{"step": 1, "train/lr": 1.0}]


def test_an_undeclared_name_writes_nothing(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path)
    with pytest.raises(StackError, match="did you mean 'train/loss'"):
        writer.write(1, {"train/lr": 1.0, "train/los": 1.0})
    writer.close()
    assert lines(tmp_path) == []
    assert events(tmp_path) == {}


@pytest.mark.parametrize("step", [2, 1, 0, -1])
def test_a_step_that_does_not_follow_is_refused(tmp_path: Path, step: int) -> None:
    with MetricsWriter(tmp_path) as writer:
        writer.write(2, {"train/loss": 1.0})
        with pytest.raises(StackError, match="step 2 is already written"):
            writer.write(step, {"train/loss": 2.0})
    assert lines(tmp_path) == [{"step": 2, "train/loss": 1.0}]


def test_metrics_of_an_earlier_run_are_never_added_to(tmp_path: Path) -> None:
    MetricsWriter(tmp_path).close()
    with pytest.raises(StackError, match="earlier run"):
        MetricsWriter(tmp_path)


def test_a_run_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(StackError, match=r"write metrics to .*run"):
        MetricsWriter(tmp_path / "run")


def test_a_disk_that_takes_no_more_loses_only_the_line_that_did_not_fit(tmp_path: Path) -> None:
    program = """
import resource, signal, sys
from pathlib import Path
from posttrain.errors import StackError
from posttrain.metrics import MetricsWriter

writer = MetricsWriter(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for step in range(5):
    try:
        writer.write(step, {"policy/checksum_after_step": "0" * 600})
    except StackError as error:
        print(step, error.found)
"""
    done = run_unmeasured(program, tmp_path)
    assert done.stdout.splitlines() == ["3 File too large", "4 File too large"]
    assert [line["step"] for line in lines(tmp_path)] == [0, 1, 2]


def run_unmeasured(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that can write no file, and so cannot be measured either."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def test_a_full_disk_is_one_error_and_no_traceback_of_tensorboard_s_thread(tmp_path: Path) -> None:
    program = """
import resource, signal, sys
from pathlib import Path
from posttrain.errors import StackError
from posttrain.metrics import MetricsWriter

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    MetricsWriter(Path(sys.argv[1]))
except StackError as error:
    print(error.found)
"""
    done = run_unmeasured(program, tmp_path)
    assert done.stdout == "File too large\n"
    assert done.stderr == ""


# TensorBoard


def test_tensorboard_reads_the_numbers_and_texts_stay_out_of_it(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        for step in (1, 2):
            writer.write(step, {"train/lr": 0.5 * step, "generation/0/checksum_after_refit": "ab"})
    assert events(tmp_path) == {"train/lr": [(1, 0.5), (2, 1.0)]}
    assert find("generation/0/checksum_after_refit").unit == TEXT


def test_writing_metrics_imports_neither_torch_nor_tensorflow(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from posttrain.metrics import MetricsWriter;"
        "MetricsWriter(Path(sys.argv[1])).close();"
        "assert not {'torch', 'tensorflow', 'ray'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True, timeout=120
    )
