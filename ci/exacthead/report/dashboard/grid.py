"""The grid: items down, heads across, the newest head first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.runs.folder import folder_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.report.dashboard.data import Data, ItemRun, Run

# So many heads are on one page; older ones are on the next.
HEADS = 60


@dataclass(frozen=True)
class Column:
    """A head: its newest run, and how many runs it had."""

    run: Run
    runs: int


@dataclass(frozen=True)
class Cell:
    """What became of an item at a head the last time; ``title`` for who points at it."""

    verdict: str
    title: str
    address: str


@dataclass(frozen=True)
class GridRow:
    """One item on one kind of runner.

    Attributes:
        item: its id.
        runner: its kind.
        kind: ``leg`` or ``suite``.
        last: its last verdict, of all heads.
        cells: one for each column; None where it did not run.
    """

    item: str
    runner: str
    kind: str
    last: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Grid:
    """One page of the grid; ``number`` from 0."""

    number: int
    columns: tuple[Column, ...]
    rows: tuple[GridRow, ...]


def grids(data: Data, runs_address: str) -> list[Grid]:
    """The pages of the grid, the newest heads first.

    Args:
        data: the history.
        runs_address: of the folder of all runs, relative to the page; empty for no links.
    """
    heads: dict[tuple[str, bool], list[Run]] = {}
    for run in data.runs:
        heads.setdefault((run.head, run.dirty), []).append(run)
    columns = [
        Column(runs[-1], len(runs))
        for runs in sorted(heads.values(), key=lambda each: each[-1].number, reverse=True)
    ]
    newest = {
        (item, runner): {(each.run.head, each.run.dirty): each for each in history}
        for (item, runner), history in data.items.items()
    }
    pages = []
    for number, start in enumerate(range(0, len(columns) or 1, HEADS)):
        part = columns[start : start + HEADS]
        rows = [
            GridRow(
                item=item,
                runner=runner,
                kind=data.kinds[item],
                last=data.items[item, runner][-1].verdict,
                cells=_cells(item, found, part, runs_address),
            )
            for (item, runner), found in sorted(newest.items())
        ]
        # What did not run at any of these heads is on another page.
        shown = tuple(row for row in rows if any(row.cells))
        pages.append(Grid(number, tuple(part), shown))
    return pages


def _cells(
    item: str,
    found: dict[tuple[str, bool], ItemRun],
    columns: Sequence[Column],
    runs_address: str,
) -> tuple[Cell | None, ...]:
    name = folder_name(item)
    cells: list[Cell | None] = []
    for column in columns:
        each = found.get((column.run.head, column.run.dirty))
        if each is None:
            cells.append(None)
            continue
        place = f"{each.run.name}/items/{name}/index.html"
        cells.append(
            Cell(
                verdict=each.verdict,
                title=f"{each.verdict.replace('_', ' ')} at {each.run.label}, {each.run.started}",
                address=f"{runs_address}/{place}" if runs_address else "",
            )
        )
    return tuple(cells)
