"""Judgement: what is known before a run and changes what its faults mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exacthead.classes.rules import load_rules
from exacthead.git import merge_base
from exacthead.history.folders import History
from exacthead.triage.base import compare_leg_with_base, compare_with_base
from exacthead.triage.check import unused_in
from exacthead.triage.known import load_known
from exacthead.triage.leave import ready_to_leave
from exacthead.triage.quarantine import apply, apply_leg
from exacthead.triage.summary import lines, of_known

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

    from exacthead.classes.rules import Rule
    from exacthead.head import Head
    from exacthead.runs.result import ItemResult
    from exacthead.triage.known import Known
    from exacthead.units.result import TestResult


@dataclass
class Judgement:
    """What is known of faults, and how that changes what they mean.

    Attributes:
        known: the repository's known failures.
        runner: the kind of the runner.
        today: the day on which entries must hold.
        history: earlier runs.
        base: the full id of the commit to compare with; empty when there is none.
        rules: of the failure classes.
    """

    known: Known
    runner: str
    today: date
    history: History
    base: str = ""
    rules: tuple[Rule, ...] = ()

    def tests(self, results: Sequence[TestResult]) -> tuple[TestResult, ...]:
        """The results of one shard with what is known of them."""
        judged = apply(results, self.known, self.runner, self.today)
        if self.base:
            judged = compare_with_base(judged, self.history, self.base)
        return tuple(judged)

    def leg(self, result: ItemResult) -> ItemResult:
        """The result of a leg with what is known of it."""
        judged = apply_leg(result, self.known, self.runner, self.today)
        if self.base:
            judged = compare_leg_with_base(judged, self.history, self.base)
        return judged

    def lines(self, nodeids: Sequence[str], files: Sequence[str]) -> list[str]:
        """The sections of the report, as Markdown.

        Args:
            nodeids: all tests that were planned.
            files: test files that were planned as a whole; an entry that names none of their
                tests is unused.
        """
        unused = unused_in(self.known.entries, nodeids, files)
        own = of_known(
            self.known,
            self.today,
            ready=ready_to_leave(self.known, self.history),
            unused=[entry for entry in unused if entry.on(self.runner)],
            notes=self.history.notes,
        )
        return lines(own)


def judgement(root: Path, runs: Path, runner: str, head: Head, base: str = "") -> Judgement:
    """What is known in the checkout at ``root``, with the runs in ``runs`` as its history.

    To be read before anything runs: a file that is wrong is then refused at no cost, and no test
    can write what is known of itself.

    Args:
        root: the checkout.
        runs: the folder of all runs.
        runner: the kind of the runner.
        head: what is judged.
        base: the revision whose merge base the faults are compared with; empty for none. Where
            that is the clean head itself there is nothing to compare.

    Raises:
        HarnessError: the known failures or the failure classes are not valid, or there is no such
            base.
    """
    commit = merge_base(root, base) if base else ""
    if commit == head.commit and not head.dirty:
        commit = ""
    today = datetime.now(tz=UTC).date()
    return Judgement(load_known(root), runner, today, History(runs), commit, load_rules(root))
