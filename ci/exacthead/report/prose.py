"""Markdown of the report as HTML by markdown-it: no tags of its own, no images, safe links."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

from exacthead.runs.echo import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = "## "


def prose(lines: Iterable[str]) -> Markup:
    """Lines of Markdown as HTML; ``html`` off makes text of every tag that stands in them."""
    return Markup(_parser().render(visible("\n".join(lines))))  # noqa: S704 - escaped by the parser


def sections(lines: Iterable[str]) -> dict[str, list[str]]:
    """Lines by the second-level heading that they stand below, which is left out."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        if line.startswith(_HEAD):
            title = line.removeprefix(_HEAD)
        else:
            found.setdefault(title, []).append(line)
    return {title: part for title, part in found.items() if any(map(str.strip, part))}


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
