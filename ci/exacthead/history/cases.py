"""Tests of earlier runs, read from the JUnit files that were written of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from exacthead.junit import CaseRecord, Problem, read_junit
from exacthead.triage.signature import message, of_messages
from exacthead.units.result import FAULTS, Attempt, Cause
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.junit import ResultRecord


class PastCase(NamedTuple):
    """One test of an earlier run; a tuple, since a run has a hundred thousand.

    Attributes:
        nodeid: the test's.
        kind: its verdict's.
        seconds: None when not known.
        signature: of its faults; empty without one.
        flaky: whether it passed after an attempt that showed a fault.
        reason: why it is no plain pass, one line; empty for one.
        text: the long form of that.
        attempts: how many there were.
    """

    nodeid: str
    kind: Kind
    seconds: float | None
    signature: str
    flaky: bool
    reason: str = ""
    text: str = ""
    attempts: int = 1


def read_cases(path: Path) -> Iterator[PastCase]:
    """The cases that carry a node id, one after the other; others are no tests of ours.

    Raises:
        ValueError: the file is broken; what came before the break was given.
    """
    for record in read_junit(path):
        if isinstance(record, Problem):
            if record.lost:
                raise ValueError(record.text)
        elif isinstance(record, CaseRecord) and (nodeid := record.properties.get("nodeid")):
            yield past_case(nodeid, record)


def past_case(nodeid: str, record: CaseRecord) -> PastCase:
    """The test that a case of its JUnit file tells of."""
    attempts = record.properties.get("attempts", "").count(" after ") or 1
    if not record.results:
        flaky = bool(record.reruns)
        return PastCase(nodeid, Kind.PASSED, record.seconds, "", flaky, attempts=attempts)
    causes = tuple(Cause("call", Verdict(kind_of(each), "read back")) for each in record.results)
    kind = Attempt(1, record.seconds, causes).verdict.kind
    faults = [each for each in record.results if kind_of(each) in FAULTS]
    first = (faults or record.results)[0]
    return PastCase(
        nodeid=nodeid,
        kind=kind,
        seconds=record.seconds,
        signature=of_messages(message(each.message, each.text) for each in faults),
        flaky=kind is Kind.PASSED and bool(record.reruns),
        reason=" ".join(first.message.split()),
        text=first.text,
        attempts=attempts,
    )


def kind_of(result: ResultRecord) -> Kind:
    """The kind that we wrote; of another writer's result, what its element says."""
    if result.type in set(Kind):
        return Kind(result.type)
    return Kind.SKIPPED if result.tag == "skipped" else Kind.FAILED
