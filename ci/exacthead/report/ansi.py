"""Terminal output as HTML: colours become classes, everything else that a terminal obeys goes."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from exacthead.runs.echo import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

# ECMA-48: control sequences; strings (titles, hyperlinks) up to their end, or to the end of the
# line when that is missing; other escapes. Each alternative is linear in what it reads.
_ESCAPE = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-Z\\`-~]"
)
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_OFF = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}
_EXTENDED = {38: "fg", 48: "bg"}
_BASE = 8
_BRIGHT = 16
_CUBE_END = 232
# Of the 256 colours and of true ones the nearest of eight is shown: a channel counts from here on.
_STRONG = 128


def coloured(text: str) -> Markup:
    """Text with escape sequences as HTML of ``span`` elements with classes.

    Colours and styles (SGR) are kept, the 256 and the true ones as the nearest of eight. Other
    sequences (cursor, titles, hyperlinks) are dropped, other control characters spelt out.
    """
    return Markup("").join(_pieces(text))


def stripped(text: str) -> str:
    """The text without any escape sequence."""
    return visible(_ESCAPE.sub("", text))


def _pieces(text: str) -> Iterator[Markup]:
    state: dict[str, str] = {}
    at = 0
    for found in chain(_ESCAPE.finditer(text), (None,)):
        end = found.start() if found else len(text)
        if plain := visible(text[at:end]):
            classes = " ".join(state.values())
            inner = escape(plain)
            yield Markup('<span class="{}">{}</span>').format(classes, inner) if state else inner
        if found is None:
            return
        at = found.end()
        if found["final"] == "m":
            _apply(state, found["parameters"])


def _apply(state: dict[str, str], parameters: str) -> None:
    """Change the state by the parameters of one SGR sequence; unknown ones change nothing."""
    if parameters.startswith(("<", "=", ">", "?")):
        return  # a private sequence, which only ends in the same letter
    codes = [int(each[:4]) if each else 0 for each in re.split("[;:]", parameters)]
    while codes:
        code = codes.pop(0)
        if code == 0:
            state.clear()
        elif code in _FLAGS:
            state[_FLAGS[code]] = f"a-{_FLAGS[code]}"
        elif code in _OFF:
            for flag in _OFF[code]:
                state.pop(flag, None)
        elif code in _EXTENDED:
            _set(state, _EXTENDED[code], _extended(codes))
        elif code in {39, 49}:
            state.pop("fg" if code == 39 else "bg", None)  # noqa: PLR2004 - SGR's own numbers
        else:
            _set(state, *_simple(code))


def _simple(code: int) -> tuple[str, int | None]:
    for first, place, offset in ((30, "fg", 0), (40, "bg", 0), (90, "fg", 8), (100, "bg", 8)):
        if first <= code < first + _BASE:
            return place, code - first + offset
    return "fg", None


def _set(state: dict[str, str], place: str, colour: int | None) -> None:
    if colour is not None:
        state[place] = f"a-{place}{colour}"


def _extended(codes: list[int]) -> int | None:
    """The colour, from 0 to 15, that 38 or 48 is followed by; takes its numbers away."""
    match codes[:1]:
        case [5] if len(codes) > 1:
            number = codes[1]
            del codes[:2]
            return _of_256(number)
        case [2] if len(codes) > 3:  # noqa: PLR2004 - three channels
            red, green, blue = codes[1:4]
            del codes[:4]
            return _nearest(red, green, blue)
        case _:
            codes.clear()
            return None


def _of_256(number: int) -> int | None:
    if number < _BRIGHT:
        return number
    if number < _CUBE_END:
        place = number - _BRIGHT
        return _nearest(*(51 * (place // each % 6) for each in (36, 6, 1)))
    return None if number > 255 else _nearest(*((number - _CUBE_END) * 10 + 8,) * 3)  # noqa: PLR2004


def _nearest(red: int, green: int, blue: int) -> int:
    return sum(1 << bit for bit, level in enumerate((red, green, blue)) if level >= _STRONG)
