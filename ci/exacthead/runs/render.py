"""Two renderings of one summary: Markdown for summary.md and CI step summaries, rich for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from exacthead.runs.echo import visible
from exacthead.runs.folder import State

if TYPE_CHECKING:
    from rich.console import Console

    from exacthead.runs.summary import Summary, Table, Trouble

# Characters that Markdown or HTML would read as markup.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&])")

_COLOURS = {State.PASSED: "bold green", State.INTERRUPTED: "bold yellow"}


def plain(text: str) -> str:
    """``text`` on one line, so that Markdown shows exactly its characters."""
    return _MARKUP.sub(r"\\\1", " ".join(visible(text).split()))


def code(text: str) -> str:
    """``text`` on one line as Markdown code, fenced by more backticks than it holds in a row."""
    line = " ".join(visible(text).split("\n"))
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(text: str, most_lines: int = 20) -> str:
    """The last lines of ``text`` as a block of Markdown code."""
    lines = visible(text).strip().split("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return "\n".join([f"{fence}text", *lines[-most_lines:], fence])


def markdown(summary: Summary) -> str:
    """The summary as Markdown."""
    lines = [f"# Exacthead: {plain(summary.verdict)}", "", plain(summary.counts)]
    for title, troubles in _troubles(summary):
        lines += ["", f"## {title}"]
        for trouble in troubles:
            lines += ["", f"**{plain(trouble.item_id)}**: {plain(trouble.kind)}: "]
            lines[-1] += plain(trouble.cause)
            lines += [f"- left behind: {plain(sentence)}" for sentence in trouble.leftovers]
            if trouble.reproduction:
                lines += ["", f"Run it again: {code(trouble.reproduction)}"]
    for item_id, text in summary.details:
        lines += ["", f"## {plain(item_id)}", "", text.strip()]
    for table in summary.tables:
        lines += _markdown_table(table)
    lines += ["", *summary.sections] if summary.sections else []
    if summary.notes:
        lines += ["", "## Notes", "", *(f"- {plain(note)}" for note in summary.notes)]
    return "\n".join([*lines, "", f"Run folder: {code(str(summary.folder))}", ""])


def _troubles(summary: Summary) -> list[tuple[str, tuple[Trouble, ...]]]:
    both = [("Not green", summary.red), ("Not run", summary.not_run)]
    return [(title, troubles) for title, troubles in both if troubles]


def _markdown_table(table: Table) -> list[str]:
    if not table.rows:
        return []
    rows = [table.columns, tuple("---" for _ in table.columns)]
    cells = [f"| {' | '.join(row)} |" for row in rows]
    cells += [f"| {' | '.join(plain(cell) for cell in row)} |" for row in table.rows]
    return ["", f"## {table.title}", "", *cells]


def show(summary: Summary, console: Console) -> None:
    """The summary on a terminal; lines to copy are never wrapped."""
    from rich.markdown import Markdown

    colour = _COLOURS.get(summary.state, "bold red")
    for item_id, text in summary.details:
        console.print(Text(visible(item_id), style="bold"))
        console.print(Markdown(text))
    for table in summary.tables:
        if table.rows:
            console.print(_rich_table(table))
    if summary.sections:
        console.print(Markdown("\n".join(summary.sections)))
    for note in summary.notes:
        console.print(Text(f"note: {visible(note)}", style="yellow"), soft_wrap=True)
    for title, troubles in _troubles(summary):
        console.print(Text(title, style="bold"))
        for trouble in troubles:
            console.print(
                Text(f"  {visible(trouble.item_id)}: ", style="bold"),
                Text(f"{trouble.kind}: {visible(trouble.cause)}", style="red"),
                sep="",
                soft_wrap=True,
            )
            for sentence in trouble.leftovers:
                console.print(Text(f"    left behind: {visible(sentence)}"), soft_wrap=True)
            if trouble.reproduction:
                console.print(Text(f"    run it again: {trouble.reproduction}"), soft_wrap=True)
    # The verdict comes last, where a terminal stops scrolling.
    console.print(Text(summary.counts), soft_wrap=True)
    console.print(Text(f"Exacthead: {summary.verdict}", style=colour), soft_wrap=True)
    console.print(Text(f"Run folder: {summary.folder}"), soft_wrap=True)


def _rich_table(table: Table) -> RichTable:
    shown = RichTable(*table.columns, title=table.title, title_justify="left")
    for row in table.rows:
        shown.add_row(*(Text(visible(cell)) for cell in row))
    return shown
