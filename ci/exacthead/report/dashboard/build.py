"""The dashboard's folder: written beside its place, then put there as a whole."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.report.dashboard import curves, rows
from exacthead.report.dashboard.data import read
from exacthead.report.dashboard.grid import grids
from exacthead.report.dashboard.pages import TestPages, write
from exacthead.report.html import assets, environment

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from exacthead.report.dashboard.data import Data, Fault
    from exacthead.report.dashboard.outcomes import TestRow
    from exacthead.triage.known import Known

# So many runs are shown unless another number is asked for.
RUNS = 200
_MARK = ".exacthead-dashboard"
_LISTED = 1000
_SHIFTS = 20
_FAULTS = 500


@dataclass(frozen=True)
class Group:
    """Faults of one cause: how many, in how many tests and runs, the first and the last one."""

    failure_class: str
    group: str
    reason: str
    count: int
    tests: tuple[str, ...]
    first: Fault
    last: Fault


@dataclass(frozen=True)
class Dashboard:
    """What is written, and where.

    Attributes:
        data: the history.
        runs_address: of the folder of all runs as seen from the dashboard; empty for no links.
        known: failures that are known.
    """

    data: Data
    runs_address: str
    known: Known

    def write(self, folder: Path) -> None:
        """Write all pages into an empty folder.

        Raises:
            OSError: one cannot be written.
        """
        data = self.data
        for name in ("files", "assets"):
            (folder / name).mkdir()
        # Said once for all pages of tests, of which there are thousands.
        labels = f"window.exactheadRuns = {json.dumps([run.label for run in data.runs])};\n"
        for name in ("page", "charts"):
            made = assets(charts=name == "charts")
            write(folder / "assets" / f"{name}.css", made.style)
            write(folder / "assets" / f"{name}.js", f"{labels}{made.script}")
        slowing = rows.slowing(data.tests, data.runs)
        self._grid(folder, curves.shifts(data.metrics, data.runs, _SHIFTS), slowing)
        items = curves.by_item(data.metrics, data.runs)
        self._page(folder, "metrics.html", charts=True, items=items)
        covered = curves.over_runs(data.coverage, data.runs)
        self._page(folder, "coverage.html", charts=True, curves=covered)
        self._page(
            folder,
            "builds.html",
            charts=True,
            curves=curves.over_runs(data.build_times, data.runs),
            builds=data.builds[: -_LISTED - 1 : -1],
        )
        self._page(folder, "runs.html", runs=data.runs[::-1])
        self._page(folder, "faults.html", groups=_groups(data.faults)[:_FAULTS])
        files = rows.by_file(data)
        self._page(
            folder,
            "tests.html",
            red=[each for each in data.tests if each.red][: rows.LISTED],
            slowest=rows.slowest(data.tests),
            slowing=slowing,
            flaky=rows.flakiest(data),
            files=files,
        )
        self._files(folder, files)
        TestPages(data, self.known).write(folder, files)

    def _grid(
        self, folder: Path, shifts: Sequence[curves.Shift], slowing: Sequence[rows.Slowing]
    ) -> None:
        pages = grids(self.data, self.runs_address)
        last = self.data.runs[-1] if self.data.runs else None
        for grid in pages:
            self._page(
                folder,
                "index.html" if grid.number == 0 else f"grid-{grid.number + 1}.html",
                template="dashboard/grid.html",
                grid=grid,
                pages=len(pages),
                last=last,
                shifts=shifts,
                slowing=slowing[:_SHIFTS],
                red=sum(each.red for each in self.data.tests),
                flaky=sum(each.odd for each in self.data.tests),
                runners=sorted({row.runner for row in grid.rows}),
            )

    def _files(self, folder: Path, files: Mapping[str, Sequence[TestRow]]) -> None:
        for file, tests in files.items():
            self._page(
                folder,
                rows.file_path(file),
                template="dashboard/file.html",
                up="../",
                file=file,
                tests=tests,
            )

    def _page(
        self,
        folder: Path,
        name: str,
        *,
        template: str = "",
        charts: bool = False,
        up: str = "",
        **values: object,
    ) -> None:
        text = (
            environment()
            .get_template(template or f"dashboard/{name}")
            .render(
                page=assets(charts=charts, linked=f"{up}assets"),
                up=up,
                here="tests.html" if up else name,
                data=self.data,
                runs_address=self.runs_address,
                page_path=rows.page_path,
                file_path=rows.file_path,
                in_words=rows.in_words,
                **values,
            )
        )
        write(folder / name, text)


def build(
    database: sqlite3.Connection,
    into: Path,
    *,
    runs_address: str,
    known: Known,
    last: int = RUNS,
) -> Path:
    """Write the dashboard of a history; what was there of an earlier one is replaced.

    Args:
        database: of the newest schema.
        into: the folder; it must not exist, be empty, or hold an earlier dashboard.
        runs_address: as :class:`Dashboard` says.
        known: as :class:`Dashboard` says.
        last: how many runs are shown, the newest.

    Returns:
        Its first page.

    Raises:
        HarnessError: the folder holds something else, or cannot be written to.
    """
    asked = f"a dashboard in {into}"
    if into.exists() and not (into / _MARK).exists() and any(into.iterdir()):
        raise HarnessError(asked, "it holds other files", "give an empty folder: -- --out FOLDER")
    fresh, old = (into.with_name(f".{into.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    try:
        fresh.mkdir(parents=True)
        (fresh / _MARK).touch()
        made = Dashboard(read(database, last), runs_address, known)
        # What was read stays to the end: no search for garbage in it, and none in any helper.
        gc.freeze()
        made.write(fresh)
        if into.exists():
            into.rename(old)
        fresh.rename(into)
    except OSError as error:
        raise HarnessError(asked, str(error), "give a folder that can be written to") from error
    finally:
        gc.unfreeze()
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return into / "index.html"


def _groups(faults: Sequence[Fault]) -> list[Group]:
    """The causes, the one that was seen last first; ``faults`` are newest first."""
    groups: dict[str, list[Fault]] = {}
    for fault in faults:
        groups.setdefault(fault.group or fault.reason, []).append(fault)
    found = []
    for name, members in groups.items():
        tests = Counter(each.nodeid or each.item for each in members)
        last, first = members[0], members[-1]
        found.append(
            Group(last.failure_class, name, last.reason, len(members), tuple(tests), first, last)
        )
    return found
