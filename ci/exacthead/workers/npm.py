"""npm's locks: like those of the workers, they hold no address that one machine alone can reach."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCKS = {"package-lock.json", "npm-shrinkwrap.json"}
_ADDRESSES = ("://", "file:")


def npm_problems(root: Path) -> list[str]:
    """Every address in the npm locks below ``root``, as sentences; a broken lock is one too."""
    problems = []
    for path in _locks(root):
        try:
            lock = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            problems.append(f"{path.relative_to(root)}: not JSON: {error}")
            continue
        problems += [
            f"{path.relative_to(root)}: {name or 'the root'} holds an address ('resolved'); "
            "run npm with omit-lockfile-registry-resolved=true"
            for name, package in _packages(lock)
            # A workspace is resolved to its folder in the repository, which is everywhere.
            if any(sign in str(package.get("resolved", "")) for sign in _ADDRESSES)
        ]
    return problems


def _locks(root: Path) -> Iterator[Path]:
    """The locks themselves; caches, with their many files, are not walked through."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name[0] != "." and name != "node_modules")
        yield from (Path(folder, name) for name in sorted(_LOCKS & set(files)))


def _packages(lock: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and entry of each package: flat since version 2 of the format, nested before it."""
    if not isinstance(lock, dict):
        return
    for kind in ("packages", "dependencies"):
        entries = lock.get(kind)
        for name, package in entries.items() if isinstance(entries, dict) else ():
            if isinstance(package, dict):
                yield name, package
                yield from _packages(package)
