"""A contract's result for people: a table for the terminal and one for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from exacthead.runs.echo import visible
from exacthead.runs.render import plain, table
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from exacthead.contracts.evaluate import CheckResult, ContractResult

HEADINGS = ("verdict", "check", "metric", "observed", "demanded", "why")
STYLES = {Kind.PASSED: "green", Kind.FAILED: "bold red", Kind.NOT_RUN: "yellow"}


def contract_table(result: ContractResult) -> Table:
    """The terminal's table; the verdict is a word, the colour only repeats it."""
    shown = Table(*HEADINGS, title=Text(_title(result)), title_justify="left")
    for check in result.checks:
        kind = check.verdict.kind
        cells = [Text(visible(cell)) for cell in _cells(check)]
        cells[0] = Text(str(kind), style=STYLES[kind])
        shown.add_row(*cells)
    return shown


def markdown_table(result: ContractResult) -> str:
    """The same table for summary.md, ended by a newline."""
    rows = table(HEADINGS, map(_cells, result.checks))
    return f"**{plain(_title(result))}**\n\n{rows}\n"


def _title(result: ContractResult) -> str:
    total = len(result.checks)
    kinds = [kind for kind in STYLES if result.of_kind(kind)]
    counts = ", ".join(
        f"{len(result.of_kind(kind))} {str(kind).replace('_', ' ')}" for kind in kinds
    )
    return f"contract {result.contract}: {result.verdict.kind} ({counts}; {total} checks)"


def _cells(check: CheckResult) -> tuple[str, ...]:
    verdict = check.verdict
    return (
        str(verdict.kind),
        check.name,
        check.metric,
        check.observed,
        check.bound,
        verdict.reason,
    )
