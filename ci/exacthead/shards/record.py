"""Recording: the times of a run's tests, from its JUnit files into the history of durations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.junit import CaseRecord, Problem, read_junit
from exacthead.shards import durations

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Recorded:
    """What one run brought.

    Attributes:
        times: node id -> seconds of the tests that passed.
        left_out: why a case was not taken -> how many.
        nodeids: every test of the run, passed or not.
    """

    times: dict[str, float] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    nodeids: set[str] = field(default_factory=set)


def record_run(run: Path, history: Path, root: Path, *, whole: bool = False) -> Recorded:
    """Add the times of a run's tests to the history file.

    Only tests that passed are recorded: a failed, killed or skipped one ended early, or waited for
    something that it did not get.

    Args:
        run: a run folder; the JUnit file of each of its items is read.
        history: the file, made when missing.
        root: the checkout, for JUnit files that give a dotted class name instead of a node id.
        whole: the run ran every test of each file it touched; those that are gone are forgotten.

    Raises:
        HarnessError: the run has no test with a time, or a JUnit file or the history is broken;
            the history stays as it was.
    """
    found = Recorded()
    for path in sorted(run.glob("items/*/junit.xml")):
        for each in read_junit(path):
            if isinstance(each, CaseRecord):
                _take(each, root, found)
            elif isinstance(each, Problem) and each.lost:
                raise HarnessError(
                    f"durations of {path}", each.text, "leave this run out, or repeat it"
                )
    if not found.times:
        raise HarnessError(
            f"durations of {run}",
            "no test that passed and has a time",
            "name the folder of a run of unit suites",
        )
    known = durations.record(durations.read(history), found.times)
    if whole:
        known = durations.forget(known, sorted(found.nodeids))
    durations.write(history, known)
    return found


def _take(case: CaseRecord, root: Path, found: Recorded) -> None:
    nodeid = case.properties.get("nodeid") or _resolved(case, root)
    if nodeid is None:
        found.left_out["not a test of this checkout"] += 1
        return
    found.nodeids.add(nodeid)
    if case.outcome != "passed":
        found.left_out[case.outcome] += 1
    elif case.seconds is None:
        found.left_out["no time"] += 1
    else:
        found.times[nodeid] = case.seconds


def _resolved(case: CaseRecord, root: Path) -> str | None:
    """The node id that pytest's class name and name stand for, by the files that there are."""
    parts = case.classname.split(".")
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if (root / path).is_file():
            return "::".join((path, *parts[count:], case.name))
    return None
