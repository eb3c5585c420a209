from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.errors import StackError
from posttrain.metrics.curve import PANELS, draw, main, read_series, write_curve
from posttrain.metrics.table import TEXT, find

if TYPE_CHECKING:
    from pathlib import Path


def row(step: int, **more: Any) -> dict[str, Any]:
    return {
        "step": step,
        "train/reward/mean": step / 10,
        "validation/accuracy": step / 20,
        "train/loss": -0.5 * step,
        "train/grad_norm": 0.25,
        "train/reference_kl": 0.01 * step,
        "train/token_mult_prob_error": 1.0 + step * 1e-7,
        "train/token_mult_prob_error_max": 1.0 + step * 1e-6,
        "timing/step": 2.5,
        "timing/generation": 1.5,
        "policy/checksum_after_step": "ab" * 32,
        **more,
    }


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row(step)) + "\n" for step in range(1, 6)))
    return path


def test_every_panel_has_the_curves_of_its_metrics_with_axes_and_units(metrics: Path) -> None:
    figure = draw(read_series(metrics), "A run")

    assert figure.get_suptitle() == "A run"
    assert len(figure.axes) == len(PANELS)
    for panel, axes in zip(PANELS, figure.axes, strict=True):
        assert axes.get_title(loc="left") == panel.title
        drawn = [line.get_label() for line in axes.lines]
        assert drawn == [name for name in panel.metrics if name in row(1)]
        assert drawn == [text.get_text() for text in axes.get_legend().get_texts()]
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "reward, fraction",
        "no unit",
        "no unit",
        "nats per token",
        "ratio, above 1",
        "seconds",
    ]
    assert figure.axes[-1].get_xlabel() == "optimizer step"
    reward, accuracy = figure.axes[0].lines
    assert reward.get_xydata().tolist() == [[step, step / 10] for step in range(1, 6)]
    assert accuracy.get_xydata().tolist() == [[step, step / 20] for step in range(1, 6)]


def test_parity_is_shown_by_its_distance_from_one_on_a_logarithmic_axis(metrics: Path) -> None:
    (axes,) = (axes for axes in draw(read_series(metrics)).axes if axes.get_yscale() == "log")

    assert axes.get_ylabel() == "ratio, above 1"
    assert axes.lines[0].get_ydata() == pytest.approx([step * 1e-6 for step in range(1, 6)])


def test_all_metrics_of_a_panel_are_declared_numbers() -> None:
    assert TEXT not in {find(name).unit for panel in PANELS for name in panel.metrics}


def test_the_picture_is_an_svg_that_can_be_searched_and_made_again(
    metrics: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    assert main([str(metrics), str(first), "--title", "A run"]) == 0
    write_curve(metrics, second, "A run")

    texts = set(re.findall(r"<text[^>]*>([^<]*)</text>", first.read_text(encoding="utf-8")))
    assert {"A run", "optimizer step", "train/reward/mean", "seconds", "reward, fraction"} <= texts
    assert first.read_bytes() == second.read_bytes()


def test_what_is_not_finite_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    losses = [1.0, float("nan"), float("inf"), 2.0]
    lines = [json.dumps({"step": step, "train/loss": loss}) for step, loss in enumerate(losses)]
    path.write_text("\n".join(lines) + "\n")

    (axes,) = draw(read_series(path)).axes

    assert axes.lines[0].get_ydata() == pytest.approx(
        [1.0, float("nan"), float("nan"), 2.0], nan_ok=True
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "none of train/reward/mean"),
        ('{"step": 1, "train/optimizer_steps": 1}\n', "none of train/reward/mean"),
        ('{"step": 1}\n[]\n', "line 2"),
        ('{"train/loss": 1}\n', "line 1"),
        ('{"step": 1, "train/lo', "line 1"),
    ],
)
def test_what_cannot_be_drawn_is_said_and_leaves_no_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, found: str
) -> None:
    path, picture = tmp_path / "metrics.jsonl", tmp_path / "curve.svg"
    path.write_text(content)

    assert main([str(path), str(picture)]) == 1
    assert found in capsys.readouterr().err
    assert not picture.exists()


def test_a_file_or_folder_that_is_not_there_is_named(metrics: Path, tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"other\.jsonl"):
        read_series(tmp_path / "other.jsonl")
    with pytest.raises(StackError, match="write the curve"):
        write_curve(metrics, tmp_path / "nowhere" / "curve.svg")
