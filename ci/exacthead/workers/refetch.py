"""Refetch: what the wheels of suspect distributions really hold, past uv's cache."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.workers import manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exacthead.workers.build import Build
    from exacthead.workers.manifest import Entry


def spoilt(
    build: Build, entries: Iterable[Entry], suspects: Mapping[str, Sequence[str]]
) -> list[str]:
    """Those distributions whose wheels hold something else than the worker does.

    A distribution that the lock does not name, a local package's, cannot be fetched and counts as
    one of them.

    Args:
        build: that of the worker, which is installed.
        entries: the worker's.
        suspects: distribution -> paths in the worker; a path of several is named by each.

    Raises:
        HarnessError: a distribution cannot be fetched.
    """
    held = {entry.path: entry.sha256 for entry in entries}
    # In the worker: on its file system, and gone with it when the builder is killed.
    with tempfile.TemporaryDirectory(prefix="refetch-", dir=build.root) as folder:
        fetched = {name: _contents(build, name, Path(folder)) for name in suspects}
    return sorted(
        name
        for name, paths in suspects.items()
        if any(all(fetched[owner].get(path) != held[path] for owner in suspects) for path in paths)
    )


def _contents(build: Build, name: str, folder: Path) -> dict[str, str]:
    """Path, as in the worker -> sha256 of what the distribution's wheel puts there."""
    root = build.refetch(name, folder)
    return {entry.path: entry.sha256 for entry in manifest.scan(root)} if root else {}
