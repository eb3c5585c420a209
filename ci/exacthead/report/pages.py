"""The pages of a run: ``index.html``, ``coverage.html``, and one in the folder of each item."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers.expat import ExpatError

from exacthead.contracts import series
from exacthead.history.folders import DASHBOARD
from exacthead.report import item_page, prose
from exacthead.report.charts import Chart, of_metrics
from exacthead.report.faults import by_cause
from exacthead.report.html import assets, render
from exacthead.report.listing import listing
from exacthead.report.timeline import balances, gantt
from exacthead.report.trend import of_series
from exacthead.report.words import plural, said
from exacthead.runs.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from exacthead.history.trends import Series
    from exacthead.report.covered import Covered
    from exacthead.report.model import Item, Report
    from exacthead.runs.folder import RunFolder

PAGE = "index.html"
COVERAGE_PAGE = "coverage.html"
_SHOWN = 40
_TONES = {"passed": "good", "failed": "bad", "interrupted": "warn", "abandoned": "warn"}
# A file beside the pages that cannot be read costs its part of them, and is said.
_UNREADABLE = (OSError, ValueError, KeyError, StopIteration, ExpatError)


@dataclass(frozen=True)
class Time:
    """The time of a run against what was expected: shares of a bar in percent, and its tone."""

    share: float
    expected: float
    tone: str


@dataclass
class Pages:
    """What the pages of one run are made of.

    Attributes:
        folder: of the run.
        report: what is said about it.
        root: the checkout that ran, for the text of lines; None when it is not at hand.
        metrics: of the legs over the last runs.
        clean: takes secrets out of a text; the report's own are out already.
        problems: files that could not be read, a sentence each; they come while pages are written.
    """

    folder: RunFolder
    report: Report
    root: Path | None = None
    metrics: Sequence[Series] = ()
    clean: Callable[[str], str] = str
    problems: list[str] = field(default_factory=list)

    def write(self) -> Path:
        """Write all pages.

        Returns:
            The first one.

        Raises:
            HarnessError: one cannot be written.
        """
        report = self.report
        seen = {item.id: self._item(item) for item in report.items}
        coverage = self._coverage()
        if coverage:
            text = render(
                "coverage.html", page=assets(charts=False), report=report, coverage=coverage
            )
            write_text(self.folder.path / COVERAGE_PAGE, text)
        curves = [(id_, each.charts) for id_, each in seen.items() if each.charts]
        faults = by_cause(report.failures)
        sections = prose.sections(report.sections)
        files, _ = listing(self.folder.path, inside=False)
        text = render(
            "run.html",
            page=assets(charts=bool(curves)),
            report=report,
            tone=_tone(report),
            inexact=report.head.dirty or bool(report.head.changed),
            faults=faults,
            grouped=len(faults) < len(report.failures),
            shown=_SHOWN,
            folders={item.id: item.folder for item in report.items},
            images=_images(report),
            time=_time(report),
            log_of=_log_of(report.items),
            inside={item.id: inside(item) for item in report.items},
            gantt=gantt(report.items),
            balances=balances(report.items, {id_: each.longest for id_, each in seen.items()}),
            curves=curves,
            coverage=coverage,
            covered_words=sections.pop("Coverage", []),
            sections=sections,
            used=self._used(),
            files=files,
            home=self._home(),
            problems=self.problems,
        )
        path = self.folder.path / PAGE
        write_text(path, text)
        return path

    def _item(self, item: Item) -> item_page.Seen:
        folder = self.folder.item_path(item.id)
        tests: item_page.Tests = item_page.Tests((), 0, 0.0)
        try:
            tests = item_page.read_tests(folder.junit) if item.kind != "leg" else tests
        except _UNREADABLE as error:
            self._cannot(item.folder, folder.junit, error)
        charts: tuple[Chart, ...] = ()
        if folder.metrics.exists():
            charts = of_metrics(series.read(folder.metrics).metrics)
        trends = of_series([each for each in self.metrics if each.item == item.id])
        page = item_page.ItemPage(
            self.report, item, folder.path, inside(item), tests, charts, trends
        )
        # An item that never began has no folder, and still a page that says why.
        folder.path.mkdir(parents=True, exist_ok=True)
        write_text(folder.path / PAGE, page.text())
        return item_page.Seen(charts, tests.longest)

    def _home(self) -> str:
        """The address of the pages over all runs, where there are some."""
        page = self.folder.path.parent / DASHBOARD / PAGE
        return f"../{DASHBOARD}/{PAGE}" if page.exists() else ""

    def _coverage(self) -> Covered | None:
        if not (self.folder.path / "coverage.xml").exists():
            return None
        # Coverage is slow to import, and a job can do without.
        from exacthead.report.covered import read_coverage

        try:
            return read_coverage(self.folder.path, self.root, self.clean)
        except _UNREADABLE as error:
            self.problems.append(f"coverage: {error}")
            return None

    def _used(self) -> list[tuple[str, str]]:
        """Locks and fixtures with their digests."""
        if not (self.folder.path / "provenance.json").exists():
            return []
        used = self.folder.read_provenance()
        return [
            *((f"Lock {name}", digest) for name, digest in sorted(used.locks.items())),
            *((f"Fixture {name}", digest) for name, digest in sorted(used.fixtures.items())),
        ]

    def _cannot(self, folder: str, path: Path, error: Exception) -> None:
        self.problems.append(f"{folder}/{path.name} cannot be read: {error}")


def inside(item: Item) -> str:
    """What an item consisted of, in words: tests by verdict, or checks of a contract."""
    if item.tests:
        counts = ", ".join(f"{count} {said(kind)}" for kind, count in item.tests.items() if count)
        return f"{plural(sum(item.tests.values()), 'test')}: {counts}"
    if item.contract:
        kinds = Counter(check.verdict for check in item.contract)
        counts = ", ".join(f"{count} {said(kind)}" for kind, count in kinds.items())
        return f"{plural(len(item.contract), 'check')}: {counts}"
    return ""


def _tone(report: Report) -> str:
    """The tone of the whole: a red run is red whatever its counts say."""
    return _TONES.get(report.state, "quiet")


def _images(report: Report) -> list[tuple[str, str]]:
    users: dict[str, list[str]] = {}
    for item, image in report.images.items():
        users.setdefault(image, []).append(item)
    return [(image, ", ".join(items)) for image, items in users.items()]


def _time(report: Report) -> Time:
    expected = report.expected or 0.0
    whole = max(report.seconds, expected) or 1.0
    late = bool(expected) and report.seconds > 1.5 * expected
    return Time(
        round(100 * report.seconds / whole, 3),
        round(100 * expected / whole, 3),
        "warn" if late else "quiet",
    )


def _log_of(items: Sequence[Item]) -> Item | None:
    """The item whose log says most of what went wrong: the first red one that wrote any."""
    red = [item for item in items if item.log and item.verdict not in {"passed", "quarantined"}]
    rest = [item for item in items if item.log]
    return next(iter([*red, *rest]), None)
