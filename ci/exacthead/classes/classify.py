"""From what a failure says to its class and its group; what no rule knows stays unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.report.model import Class
from exacthead.triage.signature import normalised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.classes.rules import Rule, Source

# Of a longer line both ends are looked at.
_LONGEST = 2000
_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# What stands before what is said: pytest's mark of an error, Ray's name of the process, a rank.
_BEFORE = re.compile(r"(?:E\s{1,8}|\([\w.:]{1,80} pid=\d{1,9}[^()]{0,80}\)\s|\[rank\d{1,5}\]:\s?)")
_GROUP_LENGTH = 200
# As exacthead.runs.judge quotes a log.
_QUOTED = "; last lines: "


@dataclass(frozen=True)
class Evidence:
    """What is known of one failure.

    Attributes:
        kind: its verdict's.
        cause: one line.
        text: the long form of that.
        log: what was written, as far as it was read.
        contract: whether a contract is not satisfied.
    """

    kind: str
    cause: str
    text: str = ""
    log: str = ""
    contract: bool = False

    def source(self, name: Source) -> str:
        """One of its texts; of the cause what comes before lines of the log, which has them too."""
        cause = self.cause.partition(_QUOTED)[0]
        return {"cause": cause, "text": self.text, "log": self.log}[name]


@dataclass(frozen=True)
class Classified:
    """The class of a failure.

    Attributes:
        failure_class: what kind of thing went wrong.
        rule: the id of the rule that says so; empty when none does.
        group: shared by all failures of one cause.
        line: the line that the rule found; empty when it looked at none.
    """

    failure_class: Class
    rule: str
    group: str
    line: str = ""


def classify(evidence: Evidence, rules: tuple[Rule, ...]) -> Classified:
    """The first rule that applies says the class; of a rule's finds, the first one says the group.

    The time is in proportion to the texts: each line is searched once for each rule of which it
    holds a fixed text, and patterns never go back.
    """
    for rule in rules:
        if rule.kinds and evidence.kind not in rule.kinds:
            continue
        if rule.contract and not evidence.contract:
            continue
        if not rule.has:
            # By the verdict alone: what it says is all that tells two causes apart.
            return Classified(rule.failure_class, rule.id, _group(rule, evidence.cause))
        for line, found in _finds(rule, evidence):
            captures = {name: text or "" for name, text in found.groupdict().items()}
            group = _group(rule, rule.group.format(**captures))
            return Classified(rule.failure_class, rule.id, group, line)
    return Classified(Class.UNKNOWN, "", f"unknown: {normalised(evidence.cause)[:_GROUP_LENGTH]}")


def _group(rule: Rule, said: str) -> str:
    words = normalised(said)[:_GROUP_LENGTH]
    return f"{rule.id}: {words}" if words else rule.id


def _finds(rule: Rule, evidence: Evidence) -> Iterator[tuple[str, re.Match[str]]]:
    for name in rule.sources:
        text = evidence.source(name)
        if not any(each in text for each in rule.has):
            continue
        for line in text.splitlines():
            if any(each in line for each in rule.has):
                said = said_in(line)
                if found := rule.expression.search(said):
                    yield said, found


def said_in(line: str) -> str:
    """A line without colours and without what loggers put before it; of a long one both ends."""
    if len(line) > _LONGEST:
        half = _LONGEST // 2
        line = f"{line[:half]} ... {line[-half:]}"
    line = _COLOURS.sub("", line).strip()
    while found := _BEFORE.match(line):
        line = line[found.end() :]
    return line
