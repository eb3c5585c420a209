"""Tests over all runs: lists of them, and the page of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from exacthead.history.change import changes
from exacthead.report.dashboard.data import PASSED, VERDICTS
from exacthead.report.words import number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exacthead.history.change import Change
    from exacthead.report.dashboard.data import Data, Fault, Run, TestRow

# So many tests are listed as the slowest, slowing and most flaky ones.
LISTED = 200
# Stretches of one outcome that a page shows, the newest.
_STRETCHES = 60
# Finding changes of level costs; it is asked where a plain look finds one possible.
_CANDIDATE = 1.1
_LEAST_SECONDS = 0.05
_LEAST = 10


@dataclass(frozen=True)
class Stretch:
    """Runs in a row with one outcome, from ``first`` to ``last``."""

    verdict: str
    count: int
    first: Run
    last: Run
    usual: float | None


@dataclass(frozen=True)
class Slowing:
    """A test that takes longer than it did: the newest change of its level."""

    test: TestRow
    change: Change
    run: Run


def page_path(nodeid: str) -> str:
    """Where a test's page lies, relative to the dashboard; the same in each build."""
    digest = hashlib.sha256(nodeid.encode("utf-8", errors="surrogatepass")).hexdigest()[:20]
    return f"tests/{digest[:2]}/{digest[2:]}.html"


def file_path(file: str) -> str:
    """Where the page of a file's tests lies, relative to the dashboard."""
    digest = hashlib.sha256(file.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]
    return f"files/{digest}.html"


def stretches(test: TestRow, runs: Sequence[Run]) -> tuple[Stretch, ...]:
    """What became of it, newest first: each unbroken row of one outcome."""
    found = []
    at = 0
    for code, group in groupby(test.verdicts):
        count = sum(1 for _ in group)
        known = [each for each in test.seconds[at : at + count] if each == each]  # noqa: PLR0124
        found.append(
            Stretch(
                verdict=VERDICTS[code],
                count=count,
                first=runs[test.runs[at]],
                last=runs[test.runs[at + count - 1]],
                usual=median(known) if known else None,
            )
        )
        at += count
    return tuple(reversed(found[-_STRETCHES:]))


def durations(test: TestRow) -> str:
    """What the script draws, as JSON: seconds in few digits, over the numbers of the runs."""
    runs: Sequence[int] = test.runs
    values = [f"{each:.4g}" for each in test.seconds]
    if "nan" in values:
        runs = [run for run, value in zip(runs, values, strict=True) if value != "nan"]
        values = [each for each in values if each != "nan"]
    # By hand: there are thousands of pages with hundreds of numbers each.
    return (
        f'{{"over":"run","x":{_listed(tuple(runs))},"xs":"runs","series":'
        f'[{{"name":"seconds","y":[{",".join(values)}]}}],"marks":[],"unit":" s"}}'
    )


@lru_cache(maxsize=1024)
def _listed(runs: tuple[int, ...]) -> str:
    """As JSON; most tests ran in the same runs."""
    return f"[{','.join(map(str, runs))}]"


def slowest(tests: Iterable[TestRow]) -> list[TestRow]:
    """Those with the longest usual time first."""
    timed = [(each.usual(), each) for each in tests]
    known = [(usual, each) for usual, each in timed if usual is not None]
    return [each for _, each in sorted(known, key=lambda pair: -pair[0])[:LISTED]]


def slowing(tests: Iterable[TestRow], runs: Sequence[Run]) -> list[Slowing]:
    """Those whose last change of level was to a longer time, the largest loss first."""
    found = []
    for test in tests:
        if not _may_be_slower(test.seconds):
            continue
        passed = [
            (run, value)
            for run, value, code in zip(test.runs, test.seconds, test.verdicts, strict=True)
            if code == PASSED and value == value  # noqa: PLR0124
        ]
        last = changes([value for _, value in passed])[-1:]
        if last and last[0].after > last[0].before:
            found.append(Slowing(test, last[0], runs[passed[last[0].at][0]]))
    return sorted(found, key=lambda each: each.change.before - each.change.after)[:LISTED]


def _may_be_slower(seconds: Sequence[float]) -> bool:
    """A look that costs little: the newest times against those of the first half."""
    newest, oldest = seconds[-_LEAST:], seconds[: len(seconds) // 2]
    if len(newest) < _LEAST:
        return False
    now = sorted(newest)[_LEAST // 2]
    return now > _LEAST_SECONDS and now > _CANDIDATE * sorted(oldest)[len(oldest) // 2]


def flakiest(data: Data) -> list[TestRow]:
    """Those with the highest score first: :class:`exacthead.history.tests.TestHistory`."""
    found = (each for each in data.tests if each.odd or data.score(each.nodeid))
    return sorted(found, key=lambda each: (-data.score(each.nodeid), each.nodeid))[:LISTED]


def by_file(data: Data) -> dict[str, list[TestRow]]:
    """The tests of each file."""
    files: dict[str, list[TestRow]] = {}
    for test in data.tests:
        files.setdefault(test.file, []).append(test)
    return dict(sorted(files.items()))


def faults_by_test(faults: Iterable[Fault]) -> dict[str, list[Fault]]:
    """The faults of each test, newest first."""
    found: dict[str, list[Fault]] = {}
    for fault in faults:
        if fault.nodeid:
            found.setdefault(fault.nodeid, []).append(fault)
    return found


def in_words(change: Change) -> str:
    """A change of level of a duration: ``0.8 s → 1.3 s (1.6 times)``."""
    times = f" ({number(change.after / change.before)} times)" if change.before else ""
    return f"{seconds(change.before)} → {seconds(change.after)}{times}"
