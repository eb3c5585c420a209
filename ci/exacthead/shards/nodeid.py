"""Node ids of pytest, taken apart: file, classes, function, parameters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# A path may hold ``::`` and brackets: it ends behind a suffix, or it is a Python file and all.
_END = re.compile(r"\.[A-Za-z]\w*(?=::)|\.py$")


# A plan takes each id apart a dozen times.
@lru_cache(maxsize=1 << 16)
def split(nodeid: str) -> tuple[str, str]:
    """File and what follows it, without the ``::`` between them.

    The file ends at the first ``::`` behind a name with a suffix (``.py``, ``.rst``); where there
    is none, at the first ``::``. Of a file that could not be collected, the id is the file.
    """
    return _split(nodeid)


def files_of(nodeids: Iterable[str]) -> list[str]:
    """The path of each one's file; of many that are asked for once, which a cache would slow."""
    return [_split(nodeid)[0] for nodeid in nodeids]


def _split(nodeid: str) -> tuple[str, str]:
    if end := _END.search(nodeid):
        return nodeid[: end.end()], nodeid[end.end() + 2 :]
    file, _, rest = nodeid.partition("::")
    return file, rest


def file_of(nodeid: str) -> str:
    """The path of the file; the whole id of a file that could not be collected."""
    return split(nodeid)[0]


def within(nodeid: str) -> str:
    """What follows the file: classes, function and parameters."""
    return split(nodeid)[1]


def names_of(nodeid: str) -> tuple[str, ...]:
    """Classes and function without parameters; none of a file."""
    plain = within(nodeid).partition("[")[0]
    return tuple(plain.split("::")) if plain else ()


def function_of(nodeid: str) -> str:
    """The id without its parameters, which may themselves hold ``::`` and brackets."""
    file, rest = split(nodeid)
    return file + "::" + rest.partition("[")[0]


def class_of(nodeid: str) -> str:
    """The outermost class in its file; the function where there is no class."""
    file, rest = split(nodeid)
    return file + "::" + rest.partition("[")[0].split("::")[0]
