"""The readiness record: small, written last, enough to tell in milliseconds that all is well."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from exacthead.workers.layout import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from exacthead.workers.layout import Layout
    from exacthead.workers.manifest import Entry

_SAMPLE = 16


@dataclass(frozen=True)
class Sentinel:
    """A file or folder whose size and modification time stand for its content on reuse."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Readiness:
    """What was published of a worker when it had been built, probed and hashed.

    Attributes:
        key: the whole key of its spec.
        built: when, UTC, ISO 8601.
        interpreter: the real file of the Python it is built on; an absolute path.
        sentinels: of the interpreter and of files in the worker; a relative path is in the worker.
        manifest_sha256: digest of the manifest's file.
        files: their number.
        size: their bytes, each hard link in full.
        timings: seconds of each stage of the build.
        notes: what a report must say of it.
    """

    key: str
    built: str
    interpreter: str
    sentinels: tuple[Sentinel, ...]
    manifest_sha256: str
    files: int
    size: int
    timings: dict[str, float]
    notes: tuple[str, ...]


def write(layout: Layout, readiness: Readiness) -> None:
    """Publish the record; from here on the worker is ready."""
    data = json.dumps(asdict(readiness), indent=1, sort_keys=True)
    write_whole(layout.record(readiness.key), data.encode())


def read(layout: Layout, key: str) -> Readiness | None:
    """The record of ``key``, or None.

    One that cannot be read, or that is of another key (stems could be alike), is none.
    """
    try:
        data = json.loads(layout.record(key).read_bytes())
        data["sentinels"] = tuple(Sentinel(**sentinel) for sentinel in data["sentinels"])
        data["notes"] = tuple(data["notes"])
        # Another version of the harness may have written more than this one reads.
        found = Readiness(**{item.name: data[item.name] for item in fields(Readiness)})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return found if found.key.startswith(key) else None


def unchanged(layout: Layout, readiness: Readiness) -> bool:
    """Whether the manifest's digest, the interpreter and all sentinels are as recorded.

    Reads one file and asks for the status of about twenty; runs nothing.
    """
    root = layout.worker(readiness.key)
    try:
        manifest = layout.manifest(readiness.key).read_bytes()
        if hashlib.sha256(manifest).hexdigest() != readiness.manifest_sha256:
            return False
        return all(sentinel == _look(root, sentinel.path) for sentinel in readiness.sentinels)
    except (FileNotFoundError, NotADirectoryError):
        return False


def refresh(layout: Layout, readiness: Readiness) -> Readiness:
    """Publish the record with the present times of sentinels whose content was just checked."""
    root = layout.worker(readiness.key)
    looked = tuple(_look(root, sentinel.path) for sentinel in readiness.sentinels)
    refreshed = replace(readiness, sentinels=looked)
    write(layout, refreshed)
    return refreshed


def choose_sentinels(
    root: Path, entries: Iterable[Entry], always: Iterable[str]
) -> tuple[Sentinel, ...]:
    """Sentinels for a worker: ``always``, and a sample that depends on the content alone.

    Args:
        root: the worker.
        entries: its manifest.
        always: paths that must be among them, relative to the worker or absolute.
    """
    ranked = sorted(entries, key=lambda entry: hashlib.sha256(entry.path.encode()).digest())
    sample = [entry.path for entry in ranked if entry.sha256][:_SAMPLE]
    return tuple(_look(root, path) for path in dict.fromkeys([*always, *sample]))


def _look(root: Path, path: str) -> Sentinel:
    status = (root / path).stat()
    return Sentinel(path, status.st_size, status.st_mtime_ns)
