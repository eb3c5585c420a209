"""Templates to pages: everything escaped, every script and style named by its hash.

Nothing in a page is trusted but what lies in ``assets`` and ``templates``. What a template prints
is escaped by Jinja and shown by :func:`exacthead.runs.echo.visible`, so that no control character
and no mark that turns the direction of text gets through; the content security policy lets nothing
run or load beyond this.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from exacthead.report import words
from exacthead.report.ansi import coloured
from exacthead.report.prose import prose
from exacthead.runs.echo import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE = Path(__file__).parent
ASSETS = _HERE / "assets"
_STYLE = ("base.css",)
_CHART_STYLE = ("uplot.css",)
_SCRIPT = ("page.js",)
_CHART_SCRIPT = ("uplot.js", "charts.js")


@dataclass(frozen=True)
class Assets:
    """The style and script of a page.

    Attributes:
        style: CSS.
        script: JavaScript.
        linked: the folder that holds both as files, relative to the page; empty to have them in
            the page itself.
        name: of both files there.
    """

    style: str
    script: str
    linked: str = ""
    name: str = ""

    @property
    def policy(self) -> str:
        """The page's content security policy."""
        own = "'self'" if self.linked else ""
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src {own or _source(self.script)}",
                f"style-src {own or _source(self.style)}",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
            )
        )


def assets(*, charts: bool, linked: str = "") -> Assets:
    """What a page needs; ``charts`` brings the library that draws them."""
    style = (*_CHART_STYLE, *_STYLE) if charts else _STYLE
    script = (*_CHART_SCRIPT, *_SCRIPT) if charts else _SCRIPT
    return Assets(_joined(style), _joined(script), linked, "charts" if charts else "page")


@cache
def _joined(names: Sequence[str]) -> str:
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def _source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def address(path: str) -> str:
    """A relative address of a path with ``/``: never of another scheme or host."""
    # A file's name may hold bytes that are no UTF-8.
    return f"./{quote(path, safe='/', errors='surrogateescape')}"


def printed(value: object) -> object:
    """What an expression of a template prints, before it is escaped."""
    # What is marked as safe is of another class; most texts have nothing to hide.
    return visible(value) if value.__class__ is str and not value.isprintable() else value


def escaped(text: str) -> str:
    """Any text as HTML that shows it, as templates do."""
    return str(escape(printed(text)))


@lru_cache(maxsize=256)
def badge(verdict: str) -> Markup:
    """A verdict as pages show it: its mark and its word in its colour."""
    return Markup('<span class="is {}"><i aria-hidden="true">{}</i> {}</span>').format(
        words.tone(verdict), words.mark(verdict), visible(words.said(verdict))
    )


@cache
def environment() -> Environment:
    """Jinja, escaping always; a name that is not defined is an error."""
    made = Environment(
        autoescape=True,
        loader=FileSystemLoader(_HERE / "templates"),
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        address=address,
        clipped=words.clipped,
        coloured=coloured,
        prose=prose,
        seconds=words.seconds,
        size=words.size,
        mark=words.mark,
        tone=words.tone,
        said=words.said,
        plural=words.plural,
        number=words.number,
        moment=words.moment,
    )
    made.globals["badge"] = badge
    return made


def render(template: str, *, page: Assets, **values: Any) -> str:
    """A page of the template by its name."""
    style, script = Markup(page.style), Markup(page.script)  # noqa: S704 - files of ours
    return (
        environment().get_template(template).render(page=page, style=style, script=script, **values)
    )
