"""From how an item's process ended to its verdict: contracts for legs, JUnit for suites (law 2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.contracts import junit as contract_junit
from exacthead.contracts import series
from exacthead.contracts.evaluate import evaluate, not_run, write_json
from exacthead.contracts.load import load
from exacthead.contracts.table import markdown_table
from exacthead.junit import Case
from exacthead.runs.execute import plain_result
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.junit import Totals
    from exacthead.plan import Item
    from exacthead.runs.item import ItemOutcome, ItemRequest
    from exacthead.runs.result import ItemResult

# pytest's own exit codes: https://docs.pytest.org/en/stable/reference/exit-codes.html
_NOTHING_COLLECTED = 5


def conclude(
    root: Path,
    item: Item,
    request: ItemRequest,
    outcome: ItemOutcome,
    properties: Mapping[str, str],
) -> ItemResult:
    """The item's result, with its JUnit file written whatever happened.

    Args:
        root: the checkout that ran; contracts are read there.
        item: what was planned.
        request: what was asked of this machine.
        outcome: how its process ended, or that it never started.
        properties: what the JUnit file says of how its results came about.
    """
    if item.kind == "leg":
        return _leg(root, item, request, outcome, properties)
    return _suite(item, request, outcome, properties)


def counts(totals: Totals) -> str:
    """Test cases in the words that dashboards look for: ``3 passed, 0 failed, 1 skipped``."""
    failed = totals.failures + totals.errors
    passed = totals.tests - failed - totals.skipped
    return f"{passed} passed, {failed} failed, {totals.skipped} skipped"


def _leg(
    root: Path,
    item: Item,
    request: ItemRequest,
    outcome: ItemOutcome,
    properties: Mapping[str, str],
) -> ItemResult:
    script = outcome.verdict
    contract = load(root / item.contract)
    if script.kind in {Kind.NOT_RUN, Kind.INTERRUPTED}:
        checked = not_run(contract, script.reason)
    else:
        passed = script.kind is Kind.PASSED
        # The first clause; the log's last lines stand once, with the item itself.
        reason = None if passed else f"the leg {script.kind}: {script.reason.partition(';')[0]}"
        checked = evaluate(contract, request.folder.metrics, reason_if_missing=reason)
    write_json(checked, request.folder.contract)
    # The script's own end is a case too: a red script with a green contract must show as red.
    cases = [
        Case(item.id, "the script", outcome.seconds, script),
        *contract_junit.cases(checked, item.id),
    ]
    junit.write_cases(request.folder.junit, item.id, cases, properties)
    return plain_result(request, outcome).model_copy(
        update={
            "verdict": checked.verdict if script.kind is Kind.PASSED else script,
            "details": (markdown_table(checked),),
            "stages": stages(request.folder.metrics),
        }
    )


def _suite(
    item: Item, request: ItemRequest, outcome: ItemOutcome, properties: Mapping[str, str]
) -> ItemResult:
    written = request.folder.path / "pytest.xml"
    end = request.folder.path / "end.xml"
    # A suite that never started has no file to miss: its one case says what became of it.
    sources = [written] if written.exists() or outcome.verdict.kind is Kind.PASSED else []
    junit.write_cases(end, item.id, [], properties)
    totals = junit.merge([*sources, end], request.folder.junit)
    verdict = _suite_verdict(outcome, totals)
    if not verdict.green and not (totals.failures or totals.errors):
        # No test is to blame (a crash, a leftover, nothing selected), and yet the file must be red.
        case = Case(item.id, "the suite", outcome.seconds, verdict)
        junit.write_cases(end, item.id, [case], properties)
        totals = junit.merge([*sources, end], request.folder.junit)
    return plain_result(request, outcome).model_copy(
        update={"verdict": verdict, "details": (counts(totals),)}
    )


def _suite_verdict(outcome: ItemOutcome, totals: Totals) -> Verdict:
    if outcome.returncode == _NOTHING_COLLECTED:
        return Verdict(Kind.FAILED, "no tests ran: the suite selects nothing")
    if outcome.verdict.kind is not Kind.PASSED:
        return outcome.verdict
    if totals.broken:
        return Verdict(
            Kind.FAILED, "pytest ended well, but its JUnit file is missing or cannot be read"
        )
    if totals.failures or totals.errors:
        return Verdict(Kind.FAILED, f"pytest ended well, but its JUnit file says {counts(totals)}")
    if totals.tests == totals.skipped:
        return Verdict(Kind.FAILED, f"no test passed: {counts(totals)}")
    return outcome.verdict


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
        and math.isfinite(value)
    }
