"""Distributions in a worker: which files are whose, and whether they are what the wheels held."""

from __future__ import annotations

import base64
import csv
import os
from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from exacthead.workers.manifest import Entry

_SHA256 = "sha256="


def owners(root: Path) -> dict[str, dict[str, str]]:
    """Every file that a RECORD names: path in the worker -> distribution -> sha256.

    Several wheels may hold the same file; the one that was installed last is there. The digest is
    in hexadecimal digits, or empty where RECORD has none. A RECORD that is gone or broken names
    nothing; its own path still belongs to its distribution.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for site in root.glob("lib/python*/site-packages"):
        for folder in sorted(site.glob("*.dist-info")):
            name = canonicalize_name(folder.name.split("-")[0])
            found[(folder / "RECORD").relative_to(root).as_posix()][name] = ""
            for path, digest in _record(folder / "RECORD"):
                place = os.path.relpath(os.path.normpath(site / path), root)
                found[place].setdefault(name, digest)
    return dict(found)


def altered(root: Path, entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Files that are in none of their owners' RECORDs as they are: distribution -> paths.

    An installer links what its cache has and does not look; a byte that changed in a worker has
    changed in the cache too, and would come back with every build.
    """
    owned = owners(root)
    found: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        digests = owned.get(entry.path, {})
        if any(digests.values()) and entry.sha256 not in digests.values():
            for name in digests:
                found[name].append(entry.path)
    return dict(found)


def disputed(root: Path) -> dict[str, dict[str, str]]:
    """Files that distributions recorded with different digests, by who is to have them.

    An installer leaves the one that its threads wrote last. Here the last by name has it, so that
    two builds are the same.

    Returns:
        Distribution -> path in the worker -> its digest. They are in the order of names: who is
        installed anew may take files from those that follow, and from none before.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path, digests in owners(root).items():
        known = {name: digest for name, digest in digests.items() if digest}
        if len(set(known.values())) > 1:
            found[max(known)][path] = known[max(known)]
    return dict(sorted(found.items()))


def _record(path: Path) -> list[tuple[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
        rows = [row for row in csv.reader(text.splitlines()) if len(row) > 1]
        return [(row[0], _hexadecimal(row[1])) for row in rows]
    except (FileNotFoundError, UnicodeDecodeError, csv.Error, ValueError):
        return []


def _hexadecimal(digest: str) -> str:
    if not digest.startswith(_SHA256):
        return ""
    padded = digest.removeprefix(_SHA256) + "=" * (-len(digest.removeprefix(_SHA256)) % 4)
    return base64.urlsafe_b64decode(padded).hex()
