"""A contract's result for people: a table for the terminal and one for Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from exacthead.junit import xml_text
from exacthead.runs.echo import visible
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from exacthead.contracts.evaluate import CheckResult, ContractResult

HEADINGS = ("verdict", "check", "metric", "observed", "demanded", "why")
STYLES = {Kind.PASSED: "green", Kind.FAILED: "bold red", Kind.NOT_RUN: "yellow"}


def contract_table(result: ContractResult) -> Table:
    """The terminal's table; the verdict is a word, the colour only repeats it."""
    table = Table(*HEADINGS, title=Text(_title(result)), title_justify="left")
    for check in result.checks:
        kind = check.verdict.kind
        cells = [Text(visible(cell)) for cell in _cells(check)]
        cells[0] = Text(str(kind), style=STYLES[kind])
        table.add_row(*cells)
    return table


def markdown_table(result: ContractResult) -> str:
    """The same table for summary.md, ended by a newline."""
    rows = [HEADINGS, tuple("---" for _ in HEADINGS), *(_cells(check) for check in result.checks)]
    head, rule, *body = rows
    lines = [_row(head), _row(rule), *(_row(tuple(map(_literal, row))) for row in body)]
    return f"**{_literal(_title(result))}**\n\n" + "\n".join(lines) + "\n"


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


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _literal(text: str) -> str:
    """The text with everything escaped that Markdown or its HTML would act on."""
    one_line = re.sub(r"\s+", " ", xml_text(text)).strip()
    return re.sub(r"([\\`*_\[\]<>|&#~$!])", r"\\\1", one_line)
