"""A checkpoint's manifest: the step it was taken at, what it is a checkpoint of, and every file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NAME = "manifest.json"
_FORMAT = 1
_CHUNK_BYTES = 1 << 20


class CheckpointError(StackError):
    """A checkpoint that cannot be written, is damaged, or belongs to another run."""


@dataclass(frozen=True)
class Content:
    """What a file must hold.

    Attributes:
        size: in bytes.
        sha256: 64 hexadecimal digits.
    """

    size: int
    sha256: str


@dataclass(frozen=True)
class Saved:
    """What ranks wrote to a folder.

    Attributes:
        files: by name, relative to the folder.
        versions: libraries that wrote them, by name.
    """

    files: Mapping[str, Content]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says about itself.

    Attributes:
        step: optimizer steps that were taken, which is also the weights' version.
        weights: checksum of the policy's weights (see ``posttrain.checksum``).
        position: of the dataset, the fields of ``posttrain.dataset.Position``.
        identity: what a run that goes on from here must agree with, by name.
        versions: libraries that wrote it, by name.
        files: every other file of the checkpoint, by name relative to its folder.
    """

    step: int
    weights: str
    position: Mapping[str, Any]
    identity: Mapping[str, Any]
    versions: Mapping[str, str]
    files: Mapping[str, Content]

    def text(self) -> str:
        """The manifest as JSON with its own digest."""
        content = {"format": _FORMAT, **asdict(self)}
        return json.dumps({**content, "digest": _digest(content)}, indent=1) + "\n"


def content_of(path: Path) -> Content:
    """Size and digest of a file as the file system gives it back.

    Raises:
        OSError: it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return Content(size, digest.hexdigest())


def check_whole(folder: Path) -> Manifest:
    """The manifest of a checkpoint of which every byte is what it was.

    Raises:
        CheckpointError: naming everything that is missing or damaged.
    """
    problem: str
    try:
        manifest = _read(folder / NAME)
    except FileNotFoundError:
        problem = f"no {NAME}" if folder.is_dir() else "no such folder"
    except (OSError, ValueError, TypeError, KeyError) as error:
        problem = f"{NAME}: {error}"
    else:
        problems = [_differs(folder / name, found) for name, found in manifest.files.items()]
        if not any(problems):
            return manifest
        problem = "; ".join(filter(None, problems))
    raise CheckpointError(
        f"the whole checkpoint {folder}",
        problem,
        "go on from an earlier one (checkpoint.resume=auto finds it), or restore these files",
    )


def _read(path: Path) -> Manifest:
    content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_distinct)
    if not isinstance(content, dict) or "digest" not in content:
        raise ValueError("no manifest")
    if content.pop("digest") != _digest(content):
        raise ValueError("its content is not what its digest says")
    if (found := content.pop("format")) != _FORMAT:
        raise ValueError(f"format {found}, this version reads {_FORMAT}")
    files = {name: Content(**it) for name, it in content.pop("files").items()}
    return Manifest(files=files, **content)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key twice")
    return content


def _differs(path: Path, wanted: Content) -> str | None:
    """What is wrong with a file, None if nothing is."""
    name = f"{path.parent.name}/{path.name}"
    try:
        size = path.stat().st_size
        if size != wanted.size:
            return f"{name}: {size} bytes instead of {wanted.size}"
        found = content_of(path)
    except FileNotFoundError:
        return f"{name}: missing"
    except OSError as error:
        return f"{name}: {error.strerror}"
    if found != wanted:
        return f"{name}: digest {found.sha256[:12]}... instead of {wanted.sha256[:12]}..."
    return None


def _digest(content: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for part in _parts(content):
        digest.update(part.encode())
    return digest.hexdigest()


def _parts(content: Mapping[str, Any]) -> Iterator[str]:
    return json.JSONEncoder(sort_keys=True, separators=(",", ":")).iterencode(content)
