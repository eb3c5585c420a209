"""Layers out of what ``docker save`` writes, in both forms that engines have written."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_CHUNK = 1 << 20


def saved_layers(stream: Iterable[bytes], folder: Path) -> list[Path]:
    """Write each layer of the one image in a stream to a file in ``folder``; bottom first.

    Raises:
        HarnessError: the stream is not whole, or holds no image or several.
    """
    todo = "see the engine's own log, and whether its disk is full"
    files: dict[str, Path] = {}
    links: dict[str, str] = {}
    manifest: list[dict[str, Any]] = []
    try:
        with tarfile.open(fileobj=_Reader(iter(stream)), mode="r|", bufsize=_CHUNK) as archive:
            for member in archive:
                if member.issym() or member.islnk():
                    parts = [*member.name.split("/")[:-1], *member.linkname.split("/")]
                    links[member.name] = _joined(parts) if member.issym() else member.linkname
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                if member.name == "manifest.json":
                    manifest = json.loads(content.read())
                elif member.name.endswith("/layer.tar") or member.name.startswith("blobs/"):
                    path = folder / str(len(files))
                    with path.open("wb") as file:
                        while data := content.read(_CHUNK):
                            file.write(data)
                    files[member.name] = path
        if len(manifest) != 1:
            raise HarnessError("the layers of an image", f"{len(manifest)} images", todo)
        return [files[links.get(name, name)] for name in manifest[0]["Layers"]]
    except (tarfile.TarError, ValueError, KeyError) as error:
        raise HarnessError("the layers of an image", f"a broken stream: {error}", todo) from error
    except OSError as error:
        raise HarnessError("the layers of an image", str(error), "make room") from error


def _joined(parts: list[str]) -> str:
    """A path without its ``..``."""
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept.pop()
        else:
            kept.append(part)
    return "/".join(kept)


class _Reader(io.RawIOBase):
    """A stream of pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece, self._at = b"", 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size != 0:
            if self._at == len(self._piece):
                self._piece, self._at = next(self._pieces, b""), 0
                if not self._piece:
                    break
            end = len(self._piece) if size < 0 else self._at + size
            part = self._piece[self._at : end]
            parts.append(part)
            self._at += len(part)
            size = size if size < 0 else size - len(part)
        return b"".join(parts)
