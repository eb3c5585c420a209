"""Draw a run's metrics over its steps: `python -m posttrain.metrics.curve METRICS.jsonl OUT.svg`.

Needs matplotlib, which is no part of what trains: the Gym servers' worker has it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.disk import writing
from posttrain.errors import StackError
from posttrain.metrics.table import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_IN, _HEIGHT_IN = 8.0, 2.6


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: what its curves show together.
        metrics: the curves, all of one unit; what was not recorded is left out.
        above: what is subtracted from each value first, where only the distance from it tells.
        log: whether the vertical axis is logarithmic.
        whole: whether it shows exactly the range from 0 to 1.
    """

    title: str
    metrics: tuple[str, ...]
    above: float = 0.0
    log: bool = False
    whole: bool = False

    @property
    def unit(self) -> str:
        """The label of the vertical axis."""
        units = dict.fromkeys(find(name).unit.replace("1", "no unit") for name in self.metrics)
        return ", ".join(units) + (f", above {self.above:g}" if self.above else "")


PANELS = (
    Panel(
        "Reward of the rollouts, and accuracy on the validation rows",
        ("train/reward/mean", "validation/accuracy"),
        whole=True,
    ),
    Panel("Policy loss", ("train/loss",)),
    Panel("Gradient norm before clipping", ("train/grad_norm",)),
    Panel("Divergence from the start weights", ("train/reference_kl",)),
    Panel(
        "Parity of generation and policy",
        ("train/token_mult_prob_error_max", "train/token_mult_prob_error"),
        above=1.0,
        log=True,
    ),
    Panel(
        "Time of a step and of its stages",
        tuple(
            f"timing/{stage}"
            for stage in ("step", "generation", "logprobs", "training", "refit", "validation")
        ),
    ),
)

Series = list[tuple[int, float]]


def read_series(path: Path) -> dict[str, Series]:
    """Read every number of a run's `metrics.jsonl`, as (step, value) pairs by metric.

    Raises:
        StackError: the file cannot be read, or a line is not an object with a step.
    """
    series: dict[str, Series] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    for number, line in enumerate(lines, start=1):
        try:
            row: dict[str, Any] = json.loads(line)
            step = int(row.pop("step"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            found = f"line {number} is no JSON object with a step ({error})"
            raise _unreadable(path, found) from error
        for name, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                series.setdefault(name, []).append((step, float(value)))
    return series


def draw(series: dict[str, Series], title: str = "") -> Figure:
    """Draw each panel of which something was recorded, one below the other, over the same steps.

    Args:
        series: as `read_series` returns them; what is not finite is a gap.
        title: above all panels.

    Raises:
        StackError: nothing was recorded that a panel shows.
    """
    # Half a second of imports that only whoever draws should pay for.
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    panels = [panel for panel in PANELS if any(series.get(name) for name in panel.metrics)]
    if not panels:
        raise StackError(
            "curves of a run's metrics",
            f"none of {', '.join(name for panel in PANELS for name in panel.metrics)}",
            "draw the metrics of a training run",
        )
    figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN * len(panels)), layout="constrained")
    figure.suptitle(title)
    column = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for panel, axes in zip(panels, column, strict=True):
        _draw_panel(panel, series, axes)
    column[-1].set_xlabel("optimizer step")
    column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _draw_panel(panel: Panel, series: dict[str, Series], axes: Axes) -> None:
    axes.set_title(panel.title, fontsize="medium", loc="left")
    axes.set_ylabel(panel.unit)
    axes.grid(visible=True, alpha=0.3)
    if panel.log:
        axes.set_yscale("log", nonpositive="mask")
    if panel.whole:
        axes.set_ylim(-0.02, 1.02)
    for name in panel.metrics:
        if name in series:
            steps, values = zip(*series[name], strict=True)
            shown = [v - panel.above if math.isfinite(v) else math.nan for v in values]
            axes.plot(steps, shown, marker=".", markersize=4, linewidth=1, label=name)
    axes.legend(fontsize="small")


def write_curve(metrics: Path, picture: Path, title: str = "") -> None:
    """Draw `metrics` to the SVG file `picture`; the same metrics give the same bytes.

    Raises:
        StackError: as for `read_series` and `draw`; or the picture cannot be written.
    """
    import matplotlib as mpl

    # Texts stay texts, which can be searched; names inside the file are not random.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "posttrain"}
    with mpl.rc_context(settings):
        figure = draw(read_series(metrics), title)
        with writing("the curve", picture.parent):
            figure.savefig(picture, format="svg", metadata={"Date": None})


def main(argv: Sequence[str] | None = None) -> int:
    """Draw one file; returns the exit code."""
    parser = argparse.ArgumentParser(prog="posttrain.metrics.curve", description=__doc__)
    parser.add_argument("metrics", type=Path, help="a run's metrics.jsonl")
    parser.add_argument("picture", type=Path, help="the SVG file to write")
    parser.add_argument("--title", default="", help="above the curves")
    arguments = parser.parse_args(argv)
    try:
        write_curve(arguments.metrics, arguments.picture, arguments.title)
    except StackError as error:
        sys.stderr.write(f"posttrain: {error}\n")
        return 1
    return 0


def _unreadable(path: Path, found: str) -> StackError:
    return StackError(f"read the metrics {path}", found, "give a run's metrics.jsonl")


if __name__ == "__main__":
    sys.exit(main())
