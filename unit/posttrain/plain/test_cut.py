"""What a killed run wrote after its last checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.checkpoint.cut import cut_results
from posttrain.disk import Lines
from posttrain.errors import StackError
from posttrain.metrics import MetricsWriter
from unit.posttrain.plain.test_metrics import events

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, steps: list[int], after: int | None = None) -> None:
    with (
        MetricsWriter(folder, after=after) as writer,
        Lines(folder / "samples.jsonl", grow=after is not None) as samples,
    ):
        for step in steps:
            samples.append(*(json.dumps({"step": step, "row": row}) for row in range(2)))
            writer.write(step, {"train/loss": 0.5 * step, "policy/checksum_after_step": "ab"})


def left(folder: Path, name: str) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("step", [0, 1, 3, 5, 7])
def test_only_what_is_about_later_steps_goes_and_the_rest_grows_on(
    tmp_path: Path, step: int
) -> None:
    write(tmp_path, [1, 2, 3, 4, 5])
    before = (tmp_path / "metrics.jsonl").read_text().splitlines()
    kept = min(step, 5)
    assert cut_results(tmp_path, step) == {"metrics.jsonl": kept, "samples.jsonl": kept}
    assert (tmp_path / "metrics.jsonl").read_text().splitlines() == before[:kept]
    write(tmp_path, [8, 9], after=step)
    expected = [*range(1, kept + 1), 8, 9]
    assert left(tmp_path, "metrics.jsonl") == expected
    assert left(tmp_path, "samples.jsonl") == [it for it in expected for _ in range(2)]
    assert events(tmp_path) == {"train/loss": [(it, 0.5 * it) for it in expected]}


def test_nothing_that_was_cut_is_lost(tmp_path: Path) -> None:
    write(tmp_path, [1, 2, 3])
    before = (tmp_path / "metrics.jsonl").read_text()
    cut_results(tmp_path, 1)
    kept, undone = (
        (tmp_path / name).read_text() for name in ("metrics.jsonl", "undone.metrics.jsonl")
    )
    assert kept + undone == before
    assert left(tmp_path, "undone.samples.jsonl") == [2, 2, 3, 3]
    write(tmp_path, [2, 3], after=1)
    cut_results(tmp_path, 2)
    assert left(tmp_path, "undone.metrics.jsonl") == [2, 3, 3]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 300))
def test_a_line_that_was_not_written_to_its_end_goes_too(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    text = "".join(f'{{"step": {step}, "train/loss": 0.{step}}}\n' for step in range(1, 9))
    torn = text[: min(cut, len(text))]
    (folder / "metrics.jsonl").write_text(torn)
    last = cut_results(folder, 100)["metrics.jsonl"]
    assert last == torn.count("\n")
    assert left(folder, "metrics.jsonl") == list(range(1, last + 1))


def test_an_event_that_was_not_written_to_its_end_goes_too(tmp_path: Path) -> None:
    write(tmp_path, [1, 2])
    (path,) = (tmp_path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    cut_results(tmp_path, 2)
    write(tmp_path, [2, 3], after=1)
    assert events(tmp_path) == {"train/loss": [(1, 0.5), (2, 1.0), (3, 1.5)]}


def test_a_folder_without_results_stays_empty(tmp_path: Path) -> None:
    assert cut_results(tmp_path, 3) == {}
    assert cut_results(tmp_path / "nowhere", 3) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_goes_on_does_not_write_a_step_again(tmp_path: Path) -> None:
    write(tmp_path, [1, 2])
    with (
        MetricsWriter(tmp_path, after=2) as writer,
        pytest.raises(StackError, match="step 2 is already written"),
    ):
        writer.write(2, {"train/loss": 0.0})
