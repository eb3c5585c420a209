"""Mention: whether a text in a program can mean a file, judged without running anything."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

# What separates paths inside a command, a program or a list.
_SEPARATORS = re.compile(r"""[\s'"`,;=()\[\]{}<>|&]+""")
_WILD = frozenset("*?")
# Stands in a text for a value that is only filled in when the program runs.
FILLED = "\0"


def mentions(text: str, path: str) -> bool:
    """Whether ``text`` names the file ``path``, one of its folders, its ending or a pattern of it.

    A whole text or a word in it counts when its parts between slashes are consecutive parts of the
    path (``docs``, ``a.md``, ``docs/a.md``), when it is an ending (``.md``), or when it is a
    pattern with something definite in it (``*.md``, ``docs/*``). So a folder's name stands for all
    that is below it, wherever the text is used.
    """
    parts = path.split("/")
    return any(_word_means(word, path, parts) for word in {text, *_SEPARATORS.split(text)})


def _word_means(word: str, path: str, parts: list[str]) -> bool:
    word = word.replace(FILLED, "*")
    pieces = [piece for piece in word.split("/") if piece not in {"", ".", "..", "**"}]
    if not pieces:
        return False
    if _WILD.isdisjoint(word):
        ending = len(word) > 1 and word[0] == "." and path.endswith(word)
        return ending or _consecutive(pieces, parts)
    # A pattern of nothing but wildcards is a walk through a folder, and that folder has a name.
    if not any(letter.isalnum() for letter in word):
        return False
    # Brackets are those of an expression more often than of a pattern; its rest is a word too.
    pattern = "/".join(pieces).replace("[", "[[]")
    return any(fnmatchcase("/".join(parts[at:]), pattern) for at in range(len(parts)))


def _consecutive(pieces: list[str], parts: list[str]) -> bool:
    ends = range(len(parts) - len(pieces) + 1)
    return any(parts[at : at + len(pieces)] == pieces for at in ends)
