"""Curves over runs: metrics of contracts with their changes of level, coverage, builds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from exacthead.history.change import changes
from exacthead.report.charts import Chart, chart
from exacthead.report.words import number

if TYPE_CHECKING:
    from exacthead.history.change import Change
    from exacthead.report.dashboard.data import Data, Run

# The newest runs of a series that are shown.
_SHOWN = 200


@dataclass(frozen=True)
class Shift:
    """A metric of an item whose level is another one from a run on."""

    item: str
    metric: str
    run: Run
    change: Change


@dataclass(frozen=True)
class ItemCurves:
    """The charts of one item, and where its metrics changed."""

    item: str
    charts: tuple[Chart, ...]
    shifts: tuple[Shift, ...]


def of_items(data: Data) -> list[ItemCurves]:
    """The metrics of each item that has some in two runs or more, by item."""
    found = []
    for item, group in groupby(sorted(data.metrics), key=lambda each: each[0]):
        charts, shifts = [], []
        for _, metric in group:
            points = data.metrics[item, metric][-_SHOWN:]
            if len(points) < 2:  # noqa: PLR2004 - a line needs two points
                continue
            changed = changes([each.value for each in points])
            shifts += [Shift(item, metric, points[each.at].run, each) for each in changed]
            charts.append(
                chart(
                    metric,
                    "head",
                    [each.run.label for each in points],
                    {metric: [each.value for each in points]},
                    unit=" s" if metric.startswith("timing/") else "",
                    marks=[each.at for each in changed],
                    note="; ".join(_said(points[each.at].run, each) for each in changed),
                )
            )
        if charts:
            found.append(ItemCurves(item, tuple(charts), tuple(shifts)))
    return found


def newest_shifts(curves: list[ItemCurves], most: int) -> list[Shift]:
    """The changes of level of all items, the newest first."""
    shifts = [each for one in curves for each in one.shifts]
    return sorted(shifts, key=lambda each: -each.run.number)[:most]


def of_coverage(data: Data) -> list[Chart]:
    """The percentage of covered lines over the runs, apart for each set of items that ran.

    Runs of other suites cover other lines: one curve over all of them would only show who ran.
    """
    asked: dict[int, set[str]] = {}
    for (item, _), history in data.items.items():
        for each in history:
            asked.setdefault(each.run.number, set()).add(item)
    sets: dict[str, list[tuple[Run, float]]] = {}
    for run, covered, total in data.coverage:
        if total:
            name = ", ".join(sorted(asked.get(run.number, ())))
            sets.setdefault(name, []).append((run, 100 * covered / total))
    return [
        _over_runs(name, found[-_SHOWN:], "covered", " %")
        for name, found in sorted(sets.items(), key=lambda each: -each[1][-1][0].number)
        if len(found) > 1
    ]


def of_builds(data: Data) -> list[Chart]:
    """The build times of each worker and image that was built at least twice."""
    times: dict[str, list[tuple[Run, float]]] = {}
    for each in data.builds:
        if each.seconds is not None and each.how in {"built", ""}:
            times.setdefault(f"{each.kind} {each.name}", []).append((each.run, each.seconds))
    return [
        _over_runs(name, found[-_SHOWN:], "seconds", " s")
        for name, found in sorted(times.items())
        if len(found) > 1
    ]


def _said(run: Run, change: Change) -> str:
    return f"change at {run.label}: {number(change.before)} → {number(change.after)}"


def _over_runs(title: str, points: list[tuple[Run, float]], name: str, unit: str) -> Chart:
    labels = [run.label for run, _ in points]
    return chart(title, "head", labels, {name: [value for _, value in points]}, unit=unit)
