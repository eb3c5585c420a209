"""Curves over runs: metrics of contracts with their changes of level, coverage, builds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from exacthead.report.charts import Chart, Figure, chart
from exacthead.report.words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.history.change import Change
    from exacthead.history.trends import Series
    from exacthead.report.dashboard.data import Run


@dataclass(frozen=True)
class Shift:
    """A metric of an item whose level is another one from a run on."""

    item: str
    metric: str
    run: Run
    change: Change


@dataclass(frozen=True)
class ItemCurves:
    """The charts of one item."""

    item: str
    charts: tuple[Chart, ...]


def by_item(series: Sequence[Series], runs: Sequence[Run]) -> list[ItemCurves]:
    """The charts of the metrics of each item."""
    found = []
    for item, group in groupby(sorted(series, key=lambda each: (each.item, each.name)), _item):
        charts = tuple(drawn(each, each.name, runs) for each in group if len(each.points) > 1)
        if charts:
            found.append(ItemCurves(item, charts))
    return found


def _item(series: Series) -> str:
    return series.item


def shifts(series: Sequence[Series], runs: Sequence[Run], most: int) -> list[Shift]:
    """The changes of level, the newest first."""
    found = [
        Shift(each.item, each.name, runs[each.points[change.at].run], change)
        for each in series
        for change in each.changes
    ]
    return sorted(found, key=lambda each: -each.run.number)[:most]


def over_runs(series: Sequence[Series], runs: Sequence[Run]) -> list[Chart]:
    """A chart of each series of two points or more, by what it is of."""
    return [drawn(each, each.item, runs) for each in series if len(each.points) > 1]


def drawn(series: Series, title: str, runs: Sequence[Run]) -> Chart:
    """The chart of one series; where its level changed is marked, and said below its title."""
    at = [runs[point.run] for point in series.points]
    unit = " %" if series.kind == "coverage" else ""
    if series.kind in {"build", "seconds"} or series.name.startswith("timing/"):
        unit = " s"
    said = (
        f"change at {at[each.at].label}: {number(each.before)} → {number(each.after)}"
        for each in series.changes
    )
    return chart(
        Figure(title, "head", unit, "; ".join(said)),
        [run.label for run in at],
        {series.name or series.kind: [point.value for point in series.points]},
        [each.at for each in series.changes],
    )
