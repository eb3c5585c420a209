"""Where a store keeps what: one folder per kind, one entry per key, no name that people chose."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from exacthead.errors import HarnessError

# 128 bits tell any two specs apart; the readiness record holds all 256 and is compared in full.
STEM = 32


@dataclass(frozen=True)
class Layout:
    """The paths of a store. Every ``key`` may be the whole key or its first 32 digits.

    A worker's folder is its environment and nothing else: locks, records and logs lie beside it, so
    that removing the folder can take away neither a lock that is held nor the log of a failure.
    """

    root: Path

    def worker(self, key: str) -> Path:
        """The environment itself, built in place: it holds its own absolute path."""
        return self.root / "workers" / key[:STEM]

    def record(self, key: str) -> Path:
        """The readiness record, written last; a worker without one is not ready."""
        return self.root / "records" / f"{key[:STEM]}.json"

    def manifest(self, key: str) -> Path:
        """Every file of the worker, with its digest."""
        return self.root / "manifests" / f"{key[:STEM]}.json.gz"

    def lock(self, key: str) -> Path:
        """Held by who builds, checks or removes the worker; never removed itself."""
        return self.root / "locks" / f"{key[:STEM]}.lock"

    def mending(self) -> Path:
        """Held by who looks for damage that several workers may share."""
        return self.root / "locks" / "mending.lock"

    def log(self, key: str) -> Path:
        """What the builder's commands wrote."""
        return self.root / "logs" / f"{key[:STEM]}.log"

    def stamp(self, key: str) -> Path:
        """The names that asked for the worker; its modification time is the last use."""
        return self.root / "stamps" / key[:STEM]

    def uses(self, key: str) -> Path:
        """A folder of marks, one locked file for each user."""
        return self.root / "uses" / key[:STEM]

    def create(self) -> None:
        """Make the folders that are missing.

        Raises:
            HarnessError: the store cannot be written to.
        """
        try:
            for kind in ("workers", "records", "manifests", "locks", "logs", "stamps", "uses"):
                (self.root / kind).mkdir(parents=True, exist_ok=True)
            # Each use leaves a stamp: a store that can only be read is of no use.
            tempfile.TemporaryFile(dir=self.root).close()
        except OSError as error:
            raise HarnessError(
                f"the store of workers in {self.root}",
                f"it cannot be written to: {error.strerror}",
                "make room there, or point EXACTHEAD_CACHE at a folder that can be written to",
            ) from error

    def stems(self) -> list[str]:
        """Every worker that has a folder or a record, sorted."""
        folders = {path.name for path in (self.root / "workers").iterdir()}
        records = {path.stem for path in (self.root / "records").glob("[!.]*.json")}
        return sorted(folders | records)


def write_whole(path: Path, data: bytes) -> None:
    """Write ``path`` so that a reader sees all of ``data`` or what was there before, no part."""
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_tree(path: Path) -> None:
    """Remove a folder and all that is in it; one that is gone already is fine."""
    if path.exists():
        shutil.rmtree(path)
