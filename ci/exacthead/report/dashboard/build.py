"""The dashboard's folder: written beside its place, then put there as a whole."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.report.dashboard import curves, rows
from exacthead.report.dashboard.data import read
from exacthead.report.dashboard.grid import grids
from exacthead.report.html import assets, environment

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from exacthead.report.dashboard.data import Data, Fault, TestRow

_MARK = ".exacthead-dashboard"
_RUNS = 500
_SHIFTS = 20
_FAULTS = 500
_FAULTS_OF_A_TEST = 20


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
        known: node id or leg -> what is known of its failure, in words.
    """

    data: Data
    runs_address: str
    known: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Write all pages into an empty folder.

        Raises:
            OSError: one cannot be written.
        """
        data = self.data
        for name in ("files", "assets"):
            (folder / name).mkdir()
        for name in ("page", "charts"):
            made = assets(charts=name == "charts")
            _write(folder / "assets" / f"{name}.css", made.style)
            _write(folder / "assets" / f"{name}.js", made.script)
        labels = json.dumps([run.label for run in data.runs]).replace("<", "\\u003c")
        _write(folder / "assets" / "runs.js", f"window.exactheadRuns = {labels};\n")
        items = curves.of_items(data)
        slowing = rows.slowing(data.tests, data.runs)
        self._grid(folder, curves.newest_shifts(items, _SHIFTS), slowing)
        self._page(folder, "metrics.html", charts=True, items=items)
        self._page(folder, "coverage.html", charts=True, curves=curves.of_coverage(data))
        self._page(
            folder, "builds.html", charts=True, curves=curves.of_builds(data), builds=data.builds[:-_RUNS:-1]
        )
        self._page(folder, "runs.html", runs=data.runs[: -_RUNS - 1 : -1])
        self._page(folder, "faults.html", groups=_groups(data.faults)[:_FAULTS])
        files = rows.by_file(data)
        self._page(
            folder,
            "tests.html",
            red=[each for each in data.tests if each.red][: rows.LISTED],
            slowest=rows.slowest(data.tests),
            slowing=slowing,
            flaky=rows.flakiest(data.tests),
            files=files,
        )
        self._tests(folder, files)

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
                flaky=sum(each.score > 0 for each in self.data.tests),
                runners=sorted({row.runner for row in grid.rows}),
            )

    def _tests(self, folder: Path, files: Mapping[str, Sequence[TestRow]]) -> None:
        faults = rows.faults_by_test(self.data.faults)
        template = environment().get_template("dashboard/test.html")
        page = assets(charts=True, linked="../../assets")
        made = set()
        for file, tests in files.items():
            place = rows.file_path(file)
            self._page(folder, place, template="dashboard/file.html", up="../", file=file, tests=tests)
            for test in tests:
                path = folder / rows.page_path(test.nodeid)
                if path.parent not in made:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    made.add(path.parent)
                mine = faults.get(test.nodeid, ())
                text = template.render(
                    page=page,
                    up="../../",
                    here="tests.html",
                    test=test,
                    stretches=rows.stretches(test, self.data.runs),
                    durations=rows.durations(test),
                    faults=mine[:_FAULTS_OF_A_TEST],
                    known=self._known(test.nodeid),
                    file_page=place,
                    runs_address=self.runs_address,
                )
                _write(path, text)

    def _known(self, nodeid: str) -> str:
        """An entry names a test, its function, its class or its file."""
        at = nodeid
        while at:
            if at in self.known:
                return self.known[at]
            at = at.partition("[")[0] if "[" in at else at.rpartition("::")[0]
        return ""

    def _page(
        self, folder: Path, name: str, *, template: str = "", charts: bool = False, up: str = "", **values: object
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
        _write(folder / name, text)


def build(
    database: sqlite3.Connection, into: Path, *, runs_address: str, known: Mapping[str, str]
) -> Path:
    """Write the dashboard of a history; what was there of an earlier one is replaced.

    Args:
        database: of the newest schema.
        into: the folder; it must not exist, be empty, or hold an earlier dashboard.
        runs_address: as :class:`Dashboard` says.
        known: as :class:`Dashboard` says.

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
        Dashboard(read(database), runs_address, known).write(fresh)
        if into.exists():
            into.rename(old)
        fresh.rename(into)
    except OSError as error:
        raise HarnessError(asked, str(error), "give a folder that can be written to") from error
    finally:
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


def _write(path: Path, text: str) -> None:
    # A lone surrogate cannot be encoded; what is printed has none, what a script is given may.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
