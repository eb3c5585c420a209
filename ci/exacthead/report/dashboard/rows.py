"""Tests over all runs: lists of them, and what the page of each says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from statistics import median
from typing import TYPE_CHECKING

from exacthead.history.change import changes
from exacthead.history.packed import VERDICTS
from exacthead.history.rows import WINDOW
from exacthead.report.words import number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exacthead.history.change import Change
    from exacthead.report.dashboard.data import Data, Fault, Run
    from exacthead.report.dashboard.outcomes import TestRow

# So many tests are listed as the slowest, slowing and most flaky ones.
LISTED = 200
# Stretches of one outcome that a page shows, the newest.
_STRETCHES = 60
# What takes less is not looked at for slowing down: it is the noise of the machine.
_SLOW_S = 0.05


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
    at, left = 0, bytes(test.verdicts)
    while left:
        code = left[0]
        rest = left.lstrip(left[:1])
        end = at + len(left) - len(rest)
        known = [each for each in test.seconds[at:end] if not isnan(each)]
        found.append(
            Stretch(
                verdict=VERDICTS[code],
                count=end - at,
                first=runs[test.runs[at]],
                last=runs[test.runs[end - 1]],
                usual=median(known) if known else None,
            )
        )
        at, left = end, rest
    return tuple(reversed(found[-_STRETCHES:]))


def durations(test: TestRow) -> str:
    """What the script draws, as JSON: seconds in few digits, over the numbers of the runs."""
    runs, seconds = tuple(test.runs), tuple(test.seconds)
    if isnan(sum(seconds)):
        known = [each for each in zip(runs, seconds, strict=True) if not isnan(each[1])]
        runs, seconds = tuple(run for run, _ in known), tuple(value for _, value in known)
    # By hand: there are thousands of pages with hundreds of numbers each.
    values = ",".join(["%.4g"] * len(seconds)) % seconds
    return (
        f'{{"over":"run","x":{_listed(runs)},"xs":"runs","series":'
        f'[{{"name":"seconds","y":[{values}]}}],"marks":[],"unit":" s"}}'
    )


@lru_cache(maxsize=1024)
def _listed(runs: tuple[int, ...]) -> str:
    """As JSON; most tests ran in the same runs."""
    return f"[{','.join(map(str, runs))}]"


def slowest(tests: Iterable[TestRow]) -> list[TestRow]:
    """Those with the longest typical time first."""
    known = [(each.typical, each) for each in tests if each.typical is not None]
    return [each for _, each in sorted(known, key=lambda pair: -pair[0])[:LISTED]]


def slowing(tests: Iterable[TestRow], runs: Sequence[Run]) -> list[Slowing]:
    """Those whose last change of level was to a longer time, the largest loss first.

    The last sixty passes of each are looked at.
    """
    found = []
    for test in tests:
        if test.typical is None or test.typical < _SLOW_S:
            continue
        passes = test.passes(WINDOW)
        last = changes([seconds for _, seconds in passes])[-1:]
        if last and last[0].after > last[0].before:
            found.append(Slowing(test, last[0], runs[passes[last[0].at][0]]))
    return sorted(found, key=lambda each: each.change.before - each.change.after)[:LISTED]


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
