"""The report as Markdown: summary.md, and the part of it that a CI step summary can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.report.document import heading, sections
from exacthead.runs.render import code, plain, table

if TYPE_CHECKING:
    from exacthead.report.document import Section
    from exacthead.report.model import Report

# What GitHub takes of one step; a longer summary is dropped as a whole.
STEP_BYTES = 1 << 20


def markdown(report: Report, folder: str) -> str:
    """The whole report.

    Args:
        report: of the run.
        folder: where the run folder lies, for its last line.
    """
    parts = [_top(report), *map(_section, sections(report)), f"Run folder: {code(folder)}\n"]
    return "\n\n".join(parts)


def step_summary(report: Report, folder: str, room: int = STEP_BYTES) -> str:
    """As many whole sections as there is room for, in bytes; what is left out is named.

    Args:
        report: of the run.
        folder: where the whole lies.
        room: what the step has left of its limit.
    """
    whole = markdown(report, folder)
    if len(whole.encode(errors="backslashreplace")) <= room:
        return whole
    every = sections(report)
    left_out = [each.title or "further sections" for each in every]
    text = _top(report)
    # Headings come first, so that what matters most is what fits.
    for section in every:
        more = f"{text}\n\n{_section(section)}"
        rest = left_out[1:]
        if _size(more + _rest(rest, folder)) > room:
            continue
        text, left_out = more, [name for name in left_out if name != section.title]
    text += _rest(left_out, folder)
    return text if _size(text) <= room else _cut(text, room)


def _size(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))


def _cut(text: str, room: int) -> str:
    return text.encode(errors="backslashreplace")[: max(0, room)].decode(errors="ignore")


def _rest(left_out: list[str], folder: str) -> str:
    names = ", ".join(map(plain, left_out[:20]))
    return (
        f"\n\nToo long for a step summary, and left out here: {names}."
        f" The whole is summary.md and index.html in {code(folder)}\n"
    )


def _top(report: Report) -> str:
    return f"# Exacthead: {plain(report.verdict)}\n\n{plain(heading(report))}"


def _section(section: Section) -> str:
    parts = [f"## {plain(section.title)}"] if section.title else []
    for entry in section.entries:
        name = f"**{plain(entry.name)}**: " if entry.name else ""
        lines = [f"- {name}{plain(entry.said)}", *(f"  - {plain(each)}" for each in entry.lines)]
        if entry.command:
            lines.append(f"  - Run it again: {code(entry.command)}")
        parts.append("\n".join(lines))
    if section.more:
        parts.append(f"- and {section.more} more")
    if section.table and section.table.rows:
        parts.append(table(section.table.columns, section.table.rows))
    if section.markdown:
        parts.append(section.markdown)
    # A list whose entries are parted by empty lines is drawn with gaps.
    listed = "\n".join(part for part in parts if part.startswith("- "))
    others = [part for part in parts if not part.startswith("- ")]
    head = others[:1] if section.title else []
    return "\n\n".join(filter(None, [*head, listed, *others[len(head) :]]))
