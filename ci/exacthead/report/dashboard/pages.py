"""The pages of tests, one each, and of the files that they lie in: the most of a dashboard."""

from __future__ import annotations

import multiprocessing
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from exacthead.report.dashboard import rows
from exacthead.report.html import assets, environment, escaped, printed
from exacthead.report.words import moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jinja2 import Template

    from exacthead.report.dashboard.data import Data, Fault, Run
    from exacthead.report.dashboard.outcomes import TestRow
    from exacthead.triage.known import Known

    _File = tuple[str, Sequence[TestRow]]

_FAULTS = 20
_UP = "../../"
# So many pages take longer than to start a process for them.
_SHARE = 1000
_MOST_PROCESSES = 4


def write(path: Path, text: str) -> None:
    """Write a page; the dashboard is put in its place as a whole, later."""
    # A lone surrogate cannot be encoded; what is printed has none, what a script is given may.
    path.write_bytes(text.encode("utf-8", errors="backslashreplace"))


@dataclass(frozen=True)
class TestPages:
    """What is written of each test.

    Attributes:
        data: the history.
        known: failures that are known.
    """

    __test__ = False  # for pytest, to which the name looks like a test class

    data: Data
    known: Known

    def write(self, folder: Path, files: Mapping[str, Sequence[TestRow]]) -> None:
        """Write the page of each test.

        Args:
            folder: of the dashboard.
            files: the tests of each file.

        Raises:
            OSError: one cannot be written.
        """
        faults = rows.faults_by_test(self.data.faults)
        shares = _shares(list(files.items()))
        # They inherit what was read; nothing of it is sent, and nothing comes back.
        fork = multiprocessing.get_context("fork")
        helpers = [
            fork.Process(target=self._share, args=(folder, share, faults)) for share in shares[1:]
        ]
        for helper in helpers:
            helper.start()
        try:
            self._share(folder, shares[0], faults)
        finally:
            for helper in helpers:
                helper.join()
        if any(helper.exitcode for helper in helpers):
            raise OSError("a process that writes pages of tests has failed, as it says above")

    def _share(
        self, folder: Path, files: Sequence[_File], faults: Mapping[str, Sequence[Fault]]
    ) -> None:
        content = environment().get_template("dashboard/test_content.html")
        places = [_place(run) for run in self.data.runs]
        made = set()
        for file, tests in files:
            frame = _Frame.around(file)
            for test in tests:
                path = folder / rows.page_path(test.nodeid)
                if path.parent not in made:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    made.add(path.parent)
                mine = faults.get(test.nodeid, ())[:_FAULTS]
                text = self._content(content, test, mine, places)
                write(path, frame.page(test.nodeid, text))

    def _content(
        self,
        content: Template,
        test: TestRow,
        faults: Sequence[Fault],
        places: Sequence[Markup],
    ) -> str:
        return content.render(
            test=test,
            places=places,
            score=self.data.score(test.nodeid),
            since=self.data.since(test.nodeid),
            stretches=rows.stretches(test, self.data.runs),
            durations=rows.durations(test),
            faults=faults,
            known=self._known(test),
        )

    def _known(self, test: TestRow) -> str:
        """What is known of its failure where it ran last, in words; empty for nothing."""
        if not self.known.entries:
            return ""
        runner = self.data.runs[test.runs[-1]].runner
        entries = self.known.for_test(test.nodeid, runner)
        return "; ".join(
            f"{each.reason}: {each.issue} ({each.owner}, until {each.expires})" for each in entries
        )


def _shares(files: Sequence[_File]) -> list[Sequence[_File]]:
    """The files in a part for each process that is worth its start."""
    tests = sum(len(each) for _, each in files)
    processes = max(1, min(len(os.sched_getaffinity(0)), _MOST_PROCESSES, tests // _SHARE))
    return [files[start::processes] for start in range(processes)]


def _place(run: Run) -> Markup:
    """A run as tables name it, with the way to it; made once for thousands of pages."""
    return Markup(
        '<a href="{}runs.html#{}"><code>{}</code></a> <span class="quiet">{}</span>'
    ).format(_UP, *map(printed, (run.name, run.label, moment(run.started))))


@dataclass(frozen=True)
class _Frame:
    """What the pages of one file's tests have in common, rendered once for all of them."""

    before: str
    between: str
    after: str

    @classmethod
    def around(cls, file: str) -> _Frame:
        # A mark that no name can hold, since nobody knows it before.
        mark = secrets.token_hex(16)
        text = (
            environment()
            .get_template("dashboard/test.html")
            .render(
                page=assets(charts=True, linked=f"{_UP}assets"),
                up=_UP,
                here="tests.html",
                name=mark,
                file=file,
                file_page=rows.file_path(file),
                content=mark,
            )
        )
        return cls(*text.split(mark))

    def page(self, name: str, content: str) -> str:
        """The page of a test; ``content`` is HTML."""
        return f"{self.before}{escaped(name)}{self.between}{content}{self.after}"
