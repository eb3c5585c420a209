"""Manifest: every file of a worker with size, time, mode and digest, and what has changed since."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# What Python imports or a shell runs; such a file that nobody installed is damage. Other new files
# are caches that libraries write beside themselves.
_CODE = {".py", ".pyc", ".so", ".pth", ".pyd", ".egg-link"}
_LARGE_BYTES = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One file or symbolic link, by its path relative to the worker.

    Attributes:
        path: with slashes.
        size: bytes; of a link's file, 0 for a link to a folder.
        mtime_ns: modification time in nanoseconds; not content, only a cheap hint.
        mode: permission bits; of a link's file, 0 for a link to a folder.
        sha256: of the content, also through a link to a file; empty for a link to a folder.
        target: where a link points, as written in it; empty for a file.
    """

    path: str
    size: int
    mtime_ns: int
    mode: int
    sha256: str
    target: str


@dataclass(frozen=True)
class Damage:
    """One difference between a worker and its manifest, or between its record and the machine."""

    path: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: expected {self.expected}, found {self.found}"


def scan(root: Path) -> list[Entry]:
    """Read every file below ``root``, in parallel, and return its entries sorted by path."""
    paths = sorted(files(root))
    skip = len(str(root)) + 1
    # Hashing a large file releases the interpreter lock; threads that take turns at 50,000 small
    # ones only fight for it (measured: 20 s with two threads, 14 s with none).
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
        found = [
            threads.submit(_entry, path, path[skip:])
            if _size(path) > _LARGE_BYTES
            else _entry(path, path[skip:])
            for path in paths
        ]
        return [each if isinstance(each, Entry) else each.result() for each in found]


def files(root: Path | str) -> Iterator[str]:
    """Path of every file and link below ``root``; links are not followed.

    Another process may remove the worker meanwhile; what has gone is passed over.
    """
    try:
        found = os.scandir(root)
    except FileNotFoundError:
        return
    with found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                yield from files(item.path)
            else:
                yield item.path


def encode(entries: Iterable[Entry]) -> bytes:
    """Manifest as bytes: the same for the same entries."""
    text = json.dumps([astuple(entry) for entry in entries], separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def decode(data: bytes) -> list[Entry]:
    """Entries of a manifest that :func:`encode` made."""
    return [Entry(*fields) for fields in json.loads(gzip.decompress(data))]


def compare(expected: Iterable[Entry], found: Iterable[Entry]) -> list[Damage]:
    """Every difference that matters, sorted by path.

    Content, mode and link target matter; modification times do not. Of added files those do that
    could be imported or run; byte code that Python adds in ``__pycache__`` is its own affair.
    """
    then = {entry.path: entry for entry in expected}
    now = {entry.path: entry for entry in found}
    damages = [
        Damage(path, "missing", "a file" if not then[path].target else "a link", "nothing")
        for path in then.keys() - now.keys()
    ]
    damages += [
        Damage(path, "added", "nothing", now[path].target or f"{now[path].size} bytes")
        for path in now.keys() - then.keys()
        if _is_code(now[path])
    ]
    for path in then.keys() & now.keys():
        damages += _differences(then[path], now[path])
    return sorted(damages, key=lambda damage: (damage.path, damage.kind))


def _differences(then: Entry, now: Entry) -> Iterator[Damage]:
    if then.target != now.target:
        yield Damage(then.path, "link", then.target or "a file", now.target or "a file")
    if then.sha256 != now.sha256:
        yield Damage(then.path, "changed", f"sha256 {then.sha256}", f"sha256 {now.sha256}")
    if then.mode != now.mode:
        yield Damage(then.path, "mode", f"{then.mode:04o}", f"{now.mode:04o}")


def _is_code(entry: Entry) -> bool:
    path = PurePosixPath(entry.path)
    if entry.target:
        return True
    if path.parent.name == "__pycache__":
        return path.suffix != ".pyc"
    return (
        path.suffix in _CODE
        or path.parts[0] == "bin"
        # A new distribution brings entry points, which plugins are loaded from.
        or path.parent.suffix == ".dist-info"
    )


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _entry(path: str, relative: str) -> Entry:
    target = os.readlink(path) if os.path.islink(path) else ""  # noqa: PTH114, PTH115 - 50,000 times
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A link to nothing; its own text is all that it holds.
        return Entry(relative, 0, 0, 0, "", target)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return Entry(relative, 0, 0, 0, "", target)
        digest = hashlib.sha256()
        while data := os.read(descriptor, _LARGE_BYTES):
            digest.update(data)
    finally:
        os.close(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    return Entry(relative, status.st_size, status.st_mtime_ns, mode, digest.hexdigest(), target)
