"""Publish: everything that is written of a report, for people and for machines.

Nothing of it changes the verdict: what cannot be written is said where it can be.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.report import markdown, terminal
from exacthead.runs.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from exacthead.history.trends import Series
    from exacthead.report.model import Report
    from exacthead.runs.folder import RunFolder


@dataclass(frozen=True)
class Publisher:
    """Where a report goes.

    Attributes:
        folder: the run folder.
        console: the terminal.
        say: takes one line of progress.
        notify: the address that the verdict is posted to; empty for none.
        root: the checkout that ran.
        metrics: the metrics of the legs over the last runs.
    """

    folder: RunFolder
    console: Console
    say: Callable[[str], object]
    notify: str = ""
    root: Path | None = None
    metrics: Sequence[Series] = ()

    def publish(self, report: Report) -> None:
        """Write the files, the terminal and what CI reads.

        Raises:
            HarnessError: the run folder cannot be written to.
        """
        place = str(self.folder.path)
        write_text(self.folder.summary, markdown.markdown(report, place))
        terminal.show(report, place, self.console)
        self._step_summary(report, place)
        self._pages(report)

    def _pages(self, report: Report) -> None:
        # With templates and all that reads coverage, which a plain refusal need not wait for.
        from exacthead.report.pages import Pages

        pages = Pages(self.folder, report, self.root, self.metrics)
        pages.write()
        for problem in pages.problems:
            self.say(f"the report: {problem}")

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
