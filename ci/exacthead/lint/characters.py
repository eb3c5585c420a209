"""Characters that a reader cannot see, or that show code in another order than it runs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from exacthead.lint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.lint.sources import Sources

RULE = "hidden characters"
# Embeddings, overrides and isolates (CVE-2021-42574), and the marks that set a direction.
_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Of zero width or blank, although Unicode counts some of them as letters; soft hyphens; tags and
# variation selectors, which can carry a whole text; controls but tab, line feed, form feed, return.
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065"
    "\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\x00-\x08\x0b\x0e-\x1f\x7f-\x9f"
)
_SUSPECT = re.compile(f"[{_BIDIRECTIONAL}{_INVISIBLE}]")
_TURNS = re.compile(f"[{_BIDIRECTIONAL}]")
# Joiners and selectors that an emoji is put together with stand behind a symbol.
_JOINS = "\u200d\ufe0e\ufe0f"


def check_characters(sources: Sources) -> list[Finding]:
    """Hidden and bidirectional characters in the names and the text of all files that are text.

    Bytes that are no UTF-8 do not hide what follows them. Of a file that git is told not to show as
    text only the name is looked at.
    """
    findings = [
        Finding(ascii(path)[1:-1], 0, RULE, f"its name holds {_told(suspect)}", "rename the file")
        for path in sources.paths
        for suspect in _suspects(path)
    ]
    for path in sources.texts:
        if path in sources.undiffed:
            continue  # nobody reads it line by line
        content = sources.content(path)
        if content.isascii() and not _SUSPECT.search(content.decode("ascii")):
            continue
        # Lines as editors and compilers count them: not at every separator that Unicode has.
        for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
            findings += [
                Finding(path, number, RULE, _told(suspect), _fix(suspect))
                for suspect in dict.fromkeys(_suspects(line))
            ]
    return findings


def _suspects(text: str) -> Iterator[str]:
    for match in _SUSPECT.finditer(text):
        before = text[match.start() - 1] if match.start() else ""
        symbol = before and (unicodedata.category(before) in {"So", "Sk"} or before in _JOINS)
        if not (match[0] in _JOINS and symbol):
            yield match[0]


def _told(letter: str) -> str:
    name = unicodedata.name(letter, "a control character")
    kind = "it changes the order of what is shown" if _TURNS.match(letter) else "it cannot be seen"
    return f"U+{ord(letter):04X} {name}: {kind}"


def _fix(letter: str) -> str:
    return f"remove it, or write it as the escape {ascii(letter)[1:-1]}"
