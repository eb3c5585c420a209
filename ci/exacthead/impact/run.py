"""Run: what an impact run asks of its items, so that their evidence is as fine as it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.cover.settings import Settings
from exacthead.shards.nodeid import file_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# Everything in the checkout: of a test file or a conftest.py that is not measured every function
# counts, and with that whatever any fixture could start.
MEASURED = Settings(sources=(".",), contexts=True)


def apart(nodeids: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The tests of each file, in order: one item each, since tests of one item share what ran."""
    files: dict[str, list[str]] = {}
    for nodeid in nodeids:
        files.setdefault(file_of(nodeid), []).append(nodeid)
    return tuple(map(tuple, files.values()))
