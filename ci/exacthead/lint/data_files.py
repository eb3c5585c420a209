"""Files of data parse: TOML, JSON and JSON lines, with the standard library."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from exacthead.lint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.sources import Sources

_TOML_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_MEND = "mend its syntax"


def check_data(sources: Sources) -> list[Finding]:
    """Files that are not what their names say; keys that stand twice in one JSON object too."""
    checks: tuple[tuple[tuple[str, ...], Callable[[str, str], list[Finding]]], ...] = (
        ((".toml",), _toml),
        ((".json",), _json),
        ((".jsonl", ".ndjson"), _json_lines),
    )
    findings = []
    for endings, check in checks:
        for path in sources.named(*endings):
            try:
                text = sources.content(path).decode()
            except UnicodeDecodeError as error:
                line = sources.content(path)[: error.start].count(b"\n") + 1
                found = f"byte {error.object[error.start]:#04x} is no UTF-8"
                findings.append(Finding(path, line, endings[0][1:], found, "save it as UTF-8"))
                continue
            findings += check(path, text)
    return findings


def _toml(path: str, text: str) -> list[Finding]:
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        where = _TOML_LINE.search(str(error))
        last = text.count("\n") + 1
        line = (int(where[1]) if where[1] else last) if where else 0
        return [Finding(path, line, "toml", _TOML_LINE.sub("", str(error)), _MEND)]
    return []


def _json(path: str, text: str, rule: str = "json", before: int = 0) -> list[Finding]:
    try:
        json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        return [Finding(path, before + error.lineno, rule, error.msg, _MEND)]
    except (ValueError, RecursionError) as error:
        return [Finding(path, before + 1 if before else 0, rule, str(error), _MEND)]
    return []


def _json_lines(path: str, text: str) -> list[Finding]:
    # The last line may have its end or not; a blank one elsewhere is no JSON.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [
        finding
        for number, line in enumerate(lines)
        for finding in _json(path, line.removesuffix("\r"), "jsonl", before=number)
    ]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"one object has {', '.join(map(repr, twice))} more than once")
    return found
