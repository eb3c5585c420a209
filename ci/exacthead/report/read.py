"""What the tests of one item did, read from its JUnit file; plain passes are only counted."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exacthead.classes import evidence
from exacthead.classes.classify import classify
from exacthead.history.cases import past_case
from exacthead.junit import CaseRecord, Problem, read_junit
from exacthead.report.model import Attempt, Class, Failure, Standing
from exacthead.shards.nodeid import file_of
from exacthead.units.result import FAULTS, RED, UNRUN
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from exacthead.classes.rules import Rule
    from exacthead.history.cases import PastCase
    from exacthead.junit import ResultRecord

ALSO_RED = "also red on base"
_TRIED = re.compile(r"(\w+) after (?:an unknown time|([\d.]+) s)")
# A long form is kept so far; the whole stands in the JUnit file.
_MOST_TEXT = 1 << 15


@dataclass
class Found:
    """What an item's JUnit file tells.

    Attributes:
        kinds: how many tests there are of each kind.
        failures: of its tests, in the file's order.
        flaky: tests that passed after a fault.
        unrun: (kind, reason) -> the tests that did not run for it.
        problem: why the file, or a part of it, could not be read; empty when it could.
    """

    kinds: Counter[Kind] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    flaky: list[Failure] = field(default_factory=list)
    unrun: dict[tuple[Kind, str], list[str]] = field(default_factory=dict)
    problem: str = ""


def read_item(path: Path, item: str, reproduction: str, rules: tuple[Rule, ...]) -> Found:
    """Read the JUnit file of a suite's item.

    Args:
        path: of the file.
        item: the item's id.
        reproduction: the line that runs it again.
        rules: of the failure classes.
    """
    found = Found()
    for record in read_junit(path):
        if isinstance(record, Problem) and record.lost:
            found.problem = found.problem or record.text
        elif isinstance(record, CaseRecord) and (nodeid := record.properties.get("nodeid")):
            case = past_case(nodeid, record)
            found.kinds[case.kind] += 1
            if case.kind in RED:
                found.failures.append(_failure(case, record, item, reproduction, rules))
            elif case.flaky:
                found.flaky.append(_failure(case, record, item, reproduction, rules))
            elif case.kind in UNRUN:
                found.unrun.setdefault((case.kind, case.reason), []).append(nodeid)
    return found


def _failure(
    case: PastCase, record: CaseRecord, item: str, reproduction: str, rules: tuple[Rule, ...]
) -> Failure:
    notes = tuple(filter(None, record.properties.get("notes", "").split("; ")))
    file, line = place(case.nodeid, case.text)
    attempts = _attempts(case, record)
    cause, text = case.reason, case.text
    if case.flaky:
        fault = next((each for each in attempts if each.verdict in FAULTS), None)
        cause, text = (fault.message, fault.text) if fault else ("", "")
    classified = classify(evidence.of_test(str(case.kind), cause, text), rules)
    return Failure(
        name=case.nodeid,
        item=item,
        kind=str(case.kind),
        standing=standing(case.kind, notes),
        required=True,
        cause=cause,
        text=text[-_MOST_TEXT:],
        failure_class=classified.failure_class if cause else Class.UNKNOWN,
        rule=classified.rule,
        group=classified.group,
        reproduction=reproduction,
        file=file,
        line=line,
        attempts=attempts,
        notes=notes,
    )


def standing(kind: Kind, notes: Sequence[str]) -> Standing:
    """How a fault stands to what was known before, by its verdict and its notes."""
    if kind is Kind.QUARANTINED:
        return Standing.KNOWN
    also = any(note.startswith(ALSO_RED) for note in notes)
    return Standing.ALSO_RED if also else Standing.NEW


def place(nodeid: str, text: str) -> tuple[str, int | None]:
    """The file of a test, and the line of it that a traceback names last."""
    file = file_of(nodeid)
    lines = re.findall(rf"^(?:.*/)?{re.escape(file)}:(\d{{1,7}}):", text, re.MULTILINE)
    return file, int(lines[-1]) if lines else None


def _attempts(case: PastCase, record: CaseRecord) -> tuple[Attempt, ...]:
    """All attempts; the texts of earlier ones are told apart where each has one of its own."""
    last = Attempt(1, str(case.kind), case.seconds, case.reason, case.text[-_MOST_TEXT:])
    tried = _TRIED.findall(record.properties.get("attempts", ""))
    if not tried:
        return (last,)
    red = [number for number, (kind, _) in enumerate(tried[:-1]) if kind in FAULTS]
    said = dict(zip(red, _told_apart(record.reruns, len(red)), strict=False))
    earlier = [
        Attempt(
            number + 1,
            kind,
            float(seconds) if seconds else None,
            "; ".join(each.message for each in said.get(number, [])),
            "\n\n".join(each.text for each in said.get(number, []))[-_MOST_TEXT:],
        )
        for number, (kind, seconds) in enumerate(tried[:-1])
    ]
    kind = tried[-1][0]
    return (*earlier, Attempt(len(tried), kind, last.seconds, last.message, last.text))


def _told_apart(reruns: Sequence[ResultRecord], attempts: int) -> list[list[ResultRecord]]:
    """The faults by their attempts: one can show two, of its call and of its teardown."""
    groups: list[list[ResultRecord]] = []
    for each in reruns:
        more = each.message.startswith("teardown: ") and len(reruns) > attempts
        if groups and (more or len(groups) == attempts):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups
