"""The page of one item: its contract or its tests, its curves, its log and its files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.history.cases import read_cases
from exacthead.report.html import assets, render
from exacthead.report.listing import listing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.history.cases import PastCase
    from exacthead.report.charts import Chart
    from exacthead.report.model import Item, Report
    from exacthead.report.trend import Trend

# So many tests are listed: what went wrong first, then the longest. About 250 bytes each.
_MOST_TESTS = 3000
_GOOD = frozenset({"passed"})


@dataclass(frozen=True)
class Tests:
    """The tests that a page lists, how many there are, and the seconds of the longest."""

    __test__ = False  # for pytest, to which the name looks like a test class

    listed: tuple[PastCase, ...]
    count: int
    longest: float


@dataclass(frozen=True)
class Seen:
    """What the run's page needs of an item: its curves, the seconds of its longest test."""

    charts: tuple[Chart, ...]
    longest: float


@dataclass(frozen=True)
class Stage:
    """A stage with its share of the longest, in percent."""

    name: str
    seconds: float
    share: float


def read_tests(junit: Path) -> Tests:
    """The tests of an item's JUnit file, those that went wrong first.

    Raises:
        OSError: there is none.
        ValueError: it is broken.
    """
    if not junit.exists():
        return Tests((), 0, 0.0)
    cases = sorted(
        read_cases(junit),
        key=lambda each: (each.kind in _GOOD and not each.flaky, -(each.seconds or 0.0)),
    )
    longest = max((each.seconds or 0.0 for each in cases), default=0.0)
    return Tests(tuple(cases[:_MOST_TESTS]), len(cases), longest)


@dataclass(frozen=True)
class ItemPage:
    """What the page of an item is made of.

    Attributes:
        report: of the whole run.
        item: the one that the page is of.
        folder: the item's.
        inside: what it consisted of, in words.
        tests: its own.
        charts: its own.
        trends: metric -> its values over the last runs.
    """

    report: Report
    item: Item
    folder: Path
    inside: str
    tests: Tests
    charts: tuple[Chart, ...]
    trends: Mapping[str, Trend]

    def text(self) -> str:
        """The page as HTML."""
        item, tests = self.item, self.tests.listed
        files, more = listing(self.folder, inside=True)
        # The model's paths begin at the run folder, this page lies in the item's.
        log = item.log and replace(item.log, path=item.log.path.removeprefix(f"{item.folder}/"))
        return render(
            "item.html",
            page=assets(charts=bool(self.charts)),
            report=self.report,
            item=item,
            inside=self.inside,
            # What is wrong first; else as the contract has them.
            checks=sorted(item.contract, key=lambda each: each.verdict == "passed"),
            failures=[each for each in self.report.failures if each.item == item.id],
            tests=tests,
            all_tests=self.tests.count,
            kinds=sorted({kind for each in tests for kind in _filters(each)}),
            charts=self.charts,
            trends=self.trends,
            stages=_stages(item.stages),
            log=log,
            files=files,
            more_files=more,
        )


def _filters(case: PastCase) -> tuple[str, ...]:
    return (case.kind, "flaky") if case.flaky else (case.kind,)


def _stages(stages: Mapping[str, float]) -> tuple[Stage, ...]:
    longest = max(stages.values(), default=0.0) or 1.0
    return tuple(
        Stage(name, seconds, round(max(0.0, min(100.0, 100 * seconds / longest)), 2))
        for name, seconds in stages.items()
    )
