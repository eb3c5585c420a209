"""Any text as Markdown that shows exactly its characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exacthead.runs.echo import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Characters that Markdown or HTML would read as markup.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


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


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, without a newline at its end; ``columns`` are ours, cells are anybody's."""
    lines = [columns, ["---"] * len(columns), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
