"""Charts: the series of a run's metrics, as what a script draws and as a table for everybody."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.report.words import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exacthead.contracts.series import Metrics, Point

# So many points are drawn and listed; of longer series every n-th, the last one included.
_MOST_POINTS = 500
_MOST_SERIES = 6
# What belongs on one chart: title, unit, names of metrics or, ending in a slash, all below it.
_GROUPS = (
    ("Reward", "", ("train/reward/mean", "train/reward/min", "train/reward/max")),
    ("Validation accuracy", "", ("validation/accuracy",)),
    ("Loss", "", ("train/loss",)),
    ("Gradient norm", "", ("train/grad_norm",)),
    (
        "Parity: token probabilities, generation to policy",
        "",
        ("train/token_mult_prob_error", "train/token_mult_prob_error_max"),
    ),
    (
        "Divergence of generation from the policy",
        " nats",
        ("train/generation_kl_k1", "train/generation_kl_k3"),
    ),
    (
        "Rewards of rollouts",
        "",
        ("rollout/reward/mean", "rollout/reward/min", "rollout/reward/max"),
    ),
    ("Refit", " s", ("timing/refit", "refit/seconds")),
    (
        "Timing of a step",
        " s",
        (
            "timing/step",
            "timing/generation",
            "timing/logprobs",
            "timing/training",
            "timing/validation",
        ),
    ),
)


@dataclass(frozen=True)
class Chart:
    """One chart.

    Attributes:
        title: of the figure.
        over: what its horizontal axis counts.
        names: of its series.
        rows: of its table: the place on the axis, then a text for each series.
        data: what the script draws, as JSON.
        note: what is to be said below the title; may be empty.
    """

    title: str
    over: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    data: str
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """What is said around a chart.

    Attributes:
        title: of the figure.
        over: what the places on its horizontal axis are.
        unit: said after each value, with its space.
        note: below the title.
    """

    title: str
    over: str
    unit: str = ""
    note: str = ""


def chart(
    figure: Figure,
    places: Sequence[float | str],
    series: Mapping[str, Sequence[float | None]],
    marks: Sequence[int] = (),
) -> Chart:
    """A chart of series over the same places.

    Args:
        figure: what is said around it.
        places: numbers for an axis to scale; or texts, one beside the other.
        series: a value for each place, by name; None where there is none.
        marks: indices of places from which on something changed.
    """
    named = any(isinstance(place, str) for place in places)
    finite = {
        name: [None if each is None or not math.isfinite(each) else each for each in values]
        for name, values in series.items()
    }
    drawn = {
        "over": figure.over,
        "x": list(range(len(places))) if named else list(places),
        "xs": list(places) if named else None,
        "series": [{"name": name, "y": values} for name, values in finite.items()],
        "marks": [each if named else places[each] for each in marks],
        "unit": figure.unit,
    }
    changed = set(marks)
    rows = tuple(
        (
            f"{place}{' (change)' if index in changed else ''}",
            *(
                "none" if values[index] is None else f"{number(values[index])}{figure.unit}"
                for values in series.values()
            ),
        )
        for index, place in enumerate(places)
    )
    data = json.dumps(drawn, allow_nan=False)
    return Chart(figure.title, figure.over, tuple(series), rows, data, figure.note)


def of_metrics(metrics: Metrics) -> tuple[Chart, ...]:
    """The curves of a leg with more than one step, in the order in which they are read."""
    if len(metrics.steps) < 2:  # noqa: PLR2004 - a line needs two points
        return ()
    steps = thinned(metrics.steps)
    charts = []
    for title, unit, names in _GROUPS:
        series = {
            name: _values(metrics.series[name], steps)
            for name in names
            if name in metrics.series and _numeric(metrics.series[name])
        }
        if series:
            charts.append(chart(Figure(title, "step", unit, _thin(metrics, steps)), steps, series))
    return tuple(charts)


def thinned(values: Sequence[int]) -> tuple[int, ...]:
    """At most so many of them as a chart holds, evenly; the first and the last stay."""
    if len(values) <= _MOST_POINTS:
        return tuple(values)
    stride = (len(values) - 1) / (_MOST_POINTS - 1)
    return tuple(values[round(index * stride)] for index in range(_MOST_POINTS))


def _thin(metrics: Metrics, steps: Sequence[int]) -> str:
    left = len(metrics.steps) - len(steps)
    return f"{len(steps)} of {len(metrics.steps)} steps" if left else ""


def _numeric(points: Sequence[Point]) -> bool:
    return all(isinstance(each.value, int | float) for each in points)


def _values(points: Sequence[Point], steps: Sequence[int]) -> list[float | None]:
    by_step = {each.step: each.value for each in points}
    return [_value(by_step.get(step)) for step in steps]


def _value(value: bool | float | str | None) -> float | None:
    if value is None or isinstance(value, str):
        return None
    try:
        return float(value)
    except OverflowError:  # JSON can hold an integer that no float can
        return None
