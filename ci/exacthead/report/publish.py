"""Publish: everything that is written of a report, for people and for machines.

Nothing of it changes the verdict: what cannot be written is said where it can be.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.report import data, markdown, openmetrics, terminal
from exacthead.report.annotations import workflow_commands
from exacthead.report.notify import notify
from exacthead.runs.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from exacthead.report.model import Report
    from exacthead.report.pages import Pages
    from exacthead.runs.folder import RunFolder


@dataclass(frozen=True)
class Publisher:
    """Where a report goes.

    Attributes:
        folder: the run folder.
        console: the terminal.
        say: takes one line of progress.
        notify: the address that the verdict is posted to; empty for none.
        pages: of the report; None for none.
    """

    folder: RunFolder
    console: Console
    say: Callable[[str], object]
    notify: str = ""
    pages: Pages | None = None

    def publish(self, report: Report) -> None:
        """Write the files, the terminal and what CI reads.

        Raises:
            HarnessError: the run folder cannot be written to.
        """
        place = str(self.folder.path)
        write_text(self.folder.summary, markdown.markdown(report, place))
        write_text(self.folder.path / data.NAME, data.to_json(report))
        write_text(self.folder.path / openmetrics.NAME, openmetrics.openmetrics(report))
        if self.pages:
            self.pages.write()
            for problem in self.pages.problems:
                self.say(f"the report: {problem}")
        terminal.show(report, place, self.console)
        self._step_summary(report, place)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in workflow_commands(report):
                self.console.out(line)
        if self.notify and (said := notify(report, self.notify, self.folder.path.parent)):
            self.say(said)

    def _step_summary(self, report: Report, place: str) -> None:
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        try:
            with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
                # What the step has said before counts too.
                room = markdown.STEP_BYTES - file.tell()
                file.write(markdown.step_summary(report, place, room))
        except OSError as error:
            # The verdict stands; that CI does not show it is said where it can be.
            self.say(f"the step summary {path} cannot be written to: {error.strerror}")
