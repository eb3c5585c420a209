"""Regular expressions whose time is bounded whatever they are held against: none goes back."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# The parser of `re` has no public name; what it gives has been the same since Python 3.11.
_parser = importlib.import_module("re._parser")


def check_bounded(pattern: str) -> str:
    """The pattern, if no repetition in it can be tried in several ways.

    Possessive repetitions (``++``, ``*+``, ``{1,9}+``) keep what they have matched; ``x?`` and
    ``x{3}`` are harmless. A search then takes at most the length of the text for each place in it.

    Raises:
        ValueError: it is no regular expression, or some repetition goes back.
    """
    try:
        parsed = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"no regular expression: {error}") from error
    if found := _going_back(parsed):
        raise ValueError(f"{found}: write it possessive, with a + behind it")
    return pattern


def _going_back(parsed: Iterable[Any]) -> str:
    """The first repetition that could be tried in several ways; empty when there is none."""
    for operation, argument in parsed:
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            least, most, body = argument
            if least != most and (least, most) != (0, 1):
                return f"a repetition of {least} to {most}"
            shortest, longest = body.getwidth()
            if most > 1 and shortest != longest:
                return f"a repetition of {least} to {most} of what can have several lengths"
        for part in _parts(name, argument):
            if found := _going_back(part):
                return found
    return ""


def _parts(name: str, argument: Any) -> list[Any]:
    """The expressions inside one."""
    if name == "BRANCH":
        return list(argument[1])
    inside = {"SUBPATTERN": -1, "ASSERT": 1, "ASSERT_NOT": 1, "POSSESSIVE_REPEAT": 2}
    inside |= {"MAX_REPEAT": 2, "MIN_REPEAT": 2}
    if name in inside:
        return [argument[inside[name]]]
    if name == "GROUPREF_EXISTS":
        return [part for part in argument[1:] if part is not None]
    return [argument] if name == "ATOMIC_GROUP" else []
