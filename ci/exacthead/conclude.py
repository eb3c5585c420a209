"""From how an item's process ended to its verdict: contracts for legs, JUnit for suites (law 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.contracts import junit as contract_junit
from exacthead.contracts.evaluate import evaluate, write_json
from exacthead.contracts.load import load
from exacthead.contracts.table import markdown_table
from exacthead.junit import Case
from exacthead.runs.execute import plain_result
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
    """The item's result, with its JUnit file written whatever happened."""
    if item.kind == "leg":
        return _leg(root, item, request, outcome, properties)
    return _suite(item, request, outcome, properties)


def _leg(
    root: Path,
    item: Item,
    request: ItemRequest,
    outcome: ItemOutcome,
    properties: Mapping[str, str],
) -> ItemResult:
    script = outcome.verdict
    reason = None if script.kind is Kind.PASSED else f"the leg {script.kind}: {script.reason}"
    checked = evaluate(load(root / item.contract), request.folder.metrics, reason_if_missing=reason)
    write_json(checked, request.folder.contract)
    # The script's own end is a case too: a red script with a green contract must show as red.
    cases = [
        Case(item.id, "the script", outcome.seconds, script),
        *contract_junit.cases(checked, item.id),
    ]
    junit.write_cases(request.folder.junit, item.id, cases, properties)
    result = plain_result(request, outcome)
    verdict = checked.verdict if script.kind is Kind.PASSED else script
    return result.model_copy(
        update={
            "verdict": verdict,
            "details": (markdown_table(checked),),
            "stages": _stages(request),
        }
    )


def _suite(
    item: Item, request: ItemRequest, outcome: ItemOutcome, properties: Mapping[str, str]
) -> ItemResult:
    result = plain_result(request, outcome)
    verdict = outcome.verdict
    if outcome.returncode == _NOTHING_COLLECTED:
        verdict = Verdict(Kind.FAILED, "no tests ran: the suite selects nothing")
    written = request.folder.path / "pytest.xml"
    if not written.exists():
        if verdict.kind is Kind.PASSED:
            verdict = Verdict(Kind.FAILED, "pytest ended well but left no JUnit file")
        case = Case(item.id, "the suite", outcome.seconds, verdict)
        junit.write_cases(request.folder.junit, item.id, [case], properties)
        return result.model_copy(update={"verdict": verdict})
    totals = junit.merge([written], request.folder.junit)
    passed = totals.tests - totals.failures - totals.errors - totals.skipped
    counts = (
        f"{passed} passed, {totals.failures + totals.errors} failed, {totals.skipped} skipped"
    )
    if verdict.kind is Kind.PASSED and (not passed or totals.broken):
        verdict = Verdict(Kind.FAILED, f"not green: {counts}, broken files: {totals.broken}")
    return result.model_copy(update={"verdict": verdict, "details": (counts,)})


def _stages(request: ItemRequest) -> dict[str, float]:
    """Seconds by stage from the last recorded ``timing/...`` metrics."""
    from exacthead.contracts import series

    recording = series.read(request.folder.metrics)
    return {
        name.removeprefix("timing/"): float(points[-1].value)
        for name, points in recording.metrics.series.items()
        if name.startswith("timing/") and isinstance(points[-1].value, int | float)
    }
