"""From how an item's process ended to its verdict: contracts for legs, JUnit for suites (law 2)."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.contracts import junit as contract_junit
from exacthead.contracts import series
from exacthead.contracts.evaluate import evaluate, not_run, write_json
from exacthead.contracts.load import load
from exacthead.contracts.table import markdown_table
from exacthead.junit import Case
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.ended import Ended
    from exacthead.judgement import Judgement
    from exacthead.junit import Totals
    from exacthead.runs.result import ItemResult


def conclude(ended: Ended, judgement: Judgement) -> ItemResult:
    """The item's result, with its JUnit file written whatever happened.

    Args:
        ended: the item and how it ended.
        judgement: what is known of faults beforehand.
    """
    if ended.item.kind == "leg":
        return _leg(ended, judgement)
    # With all that reads coverage; a job can do without.
    from exacthead.conclude_suite import conclude_suite

    return conclude_suite(ended, judgement)


def counts(totals: Totals) -> str:
    """Test cases in the words that dashboards look for: ``3 passed, 0 failed, 1 skipped``.

    Known faults follow, where there are any: ``, 1 quarantined``.
    """
    failed = totals.failures + totals.errors
    passed = totals.tests - failed - totals.skipped
    known = f", {totals.quarantined} quarantined" if totals.quarantined else ""
    return f"{passed} passed, {failed} failed, {totals.skipped - totals.quarantined} skipped{known}"


def _leg(ended: Ended, judgement: Judgement) -> ItemResult:
    item, request, script = ended.item, ended.request, ended.outcome.verdict
    contract = load(request.cwd / item.contract)
    if script.kind in {Kind.NOT_RUN, Kind.INTERRUPTED}:
        checked = not_run(contract, script.reason)
    else:
        passed = script.kind is Kind.PASSED
        # The first clause; the log's last lines stand once, with the item itself.
        reason = None if passed else f"the leg {script.kind}: {script.reason.partition(';')[0]}"
        checked = evaluate(contract, request.folder.metrics, reason_if_missing=reason)
    write_json(checked, request.folder.contract)
    result = judgement.leg(
        ended.result(
            verdict=checked.verdict if script.kind is Kind.PASSED else script,
            details=(markdown_table(checked),),
            stages=stages(request.folder.metrics),
        )
    )
    # The script's own end is a case too: a red script with a green contract must show as red.
    cases = [
        Case(item.id, "the script", ended.outcome.seconds, script),
        *contract_junit.cases(checked, item.id),
    ]
    if result.verdict.kind is Kind.QUARANTINED:
        cases = [_quarantined(case, result.verdict) for case in cases]
    ended.write_cases(cases)
    return result


def _quarantined(case: Case, verdict: Verdict) -> Case:
    """A red case of a leg whose failure is known."""
    if case.verdict.kind is Kind.PASSED:
        return case
    said = f"{verdict.reason}: {case.verdict.reason}"
    return replace(case, verdict=Verdict(Kind.QUARANTINED, said))


def stages(metrics: Path) -> dict[str, float]:
    """Seconds by stage: the last recorded value of each finite ``timing/...`` metric."""
    recorded = series.read(metrics).metrics.series
    last = {name: points[-1].value for name, points in recorded.items()}
    return {
        name.removeprefix("timing/"): float(value)
        for name, value in last.items()
        if name.startswith("timing/")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
        # Also false for NaN; JSON can hold an integer that no float can.
        and abs(value) <= sys.float_info.max
    }
