"""The report on a terminal: the same sections, with what is read first at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from exacthead.report.document import heading, sections
from exacthead.runs.echo import visible
from exacthead.runs.folder import State

if TYPE_CHECKING:
    from rich.console import Console

    from exacthead.report.document import Section, Table
    from exacthead.report.model import Report

_COLOURS = {State.PASSED: "bold green", State.INTERRUPTED: "bold yellow"}


def show(report: Report, folder: str, console: Console) -> None:
    """The report on a terminal; lines to copy are never wrapped.

    The verdict comes last, where a terminal stops scrolling, and just before it the new failures.
    """
    every = sections(report)
    for section in [each for each in every if not each.first]:
        _show(section, console)
    for section in reversed([each for each in every if each.first]):
        _show(section, console)
    colour = _COLOURS.get(State(report.state), "bold red")
    console.print(Text(f"Exacthead: {visible(report.verdict)}", style=colour), soft_wrap=True)
    console.print(Text(visible(heading(report))), soft_wrap=True)
    console.print(Text(f"Run folder: {folder}"), soft_wrap=True)


def _show(section: Section, console: Console) -> None:
    from rich.markdown import Markdown  # slow to import, and a plain run needs none

    if section.title:
        console.print(Text(visible(section.title), style="bold"), soft_wrap=True)
    for entry in section.entries:
        name = Text(f"  {visible(entry.name)}: " if entry.name else "  ", style="bold")
        console.print(name, Text(_line(entry.said)), sep="", soft_wrap=True)
        for line in entry.lines:
            console.print(Text(f"    {_line(line)}"), soft_wrap=True)
        if entry.command:
            console.print(Text(f"    run it again: {entry.command}"), soft_wrap=True)
    if section.more:
        console.print(Text(f"  and {section.more} more"))
    if section.table and section.table.rows:
        console.print(_table(section.table))
    if section.markdown:
        console.print(Markdown(section.markdown))


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _table(table: Table) -> RichTable:
    shown = RichTable(*table.columns)
    for row in table.rows:
        shown.add_row(*(Text(visible(cell)) for cell in row))
    return shown
