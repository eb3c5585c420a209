"""Layers: tar files known by the digest of their bytes; equal input gives equal bytes."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# The time of every file that has none of its own: 2020-01-01. Zip files know nothing before 1980.
EPOCH = 1_577_836_800
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Layer:
    """One layer of an image.

    Attributes:
        diff_id: ``sha256:`` and the digest of the uncompressed tar.
        size: of the tar, in bytes.
        path: the tar; None where only the engine has it.
        made_by: how it came about, for people.
    """

    diff_id: str
    size: int
    path: Path | None
    made_by: str


class Hashing(io.RawIOBase):
    """A file that is written to, with the digest of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def diff_id(self) -> str:
        """The digest so far."""
        return f"sha256:{self._digest.hexdigest()}"

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How much was written."""
        return self.size

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Write all of ``data``."""
        self._digest.update(data)
        self.size += len(data)
        self._file.write(data)
        return len(data)


def digest_of(path: Path) -> str:
    """The digest of a file, with its ``sha256:``."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def plain_member(name: str, size: int, *, executable: bool = False) -> tarfile.TarInfo:
    """A file of root's, of no particular time."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime = size, EPOCH
    member.mode = 0o755 if executable else 0o644
    return member


def folders_of(paths: Iterable[str]) -> list[str]:
    """Every folder above one of ``paths``, each once, outer ones first."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            found.setdefault("/".join(parts[:count]))
    return sorted(found)


def write_files(path: Path, files: dict[str, bytes], made_by: str) -> Layer:
    """A layer of small files.

    Args:
        path: where it is written.
        files: content by name; a content that begins with ``#!`` is executable.
        made_by: for people.
    """
    with path.open("wb") as file:
        target = Hashing(file)
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for folder in folders_of(files):
                member = plain_member(folder, 0, executable=True)
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            for name, data in sorted(files.items()):
                executable = data.startswith(b"#!")
                member = plain_member(name, len(data), executable=executable)
                archive.addfile(member, io.BytesIO(data))
    return Layer(target.diff_id, target.size, path, made_by)


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file."""
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data
