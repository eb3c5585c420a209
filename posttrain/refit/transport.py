"""The colocated transport: one safetensors file in shared memory, mapped by every engine.

The policy's first rank publishes, every engine on the machine maps the same pages without a copy,
and the file goes when all have acknowledged. An engine sees a transport as :class:`Weights`: a
manifest that can be checked before anything is loaded, and the tensors. Another transport
(a broadcast, HTTP, CUDA IPC) offers the same two.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from posttrain.errors import RefitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - shared memory is what this transport is
TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HEADER_LENGTH_BYTES = 8
# safetensors itself refuses a longer header.
LONGEST_HEADER_BYTES = 100_000_000


@dataclass(frozen=True)
class TensorInfo:
    """One entry of a manifest: checkpoint name, torch dtype without ``torch.``, full shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Published:
    """Where weights are, and what the policy says of them.

    Attributes:
        path: a safetensors file.
        names: checkpoint names that are announced to be in it.
        version: of the weights.
    """

    path: Path
    names: tuple[str, ...]
    version: int


class Weights(Protocol):
    """What an engine needs of a transport."""

    def manifest(self) -> list[TensorInfo]:
        """Every tensor that is offered, duplicates included, without reading data."""

    def tensor(self, name: str) -> torch.Tensor:
        """One full tensor; must not be written to."""


def run_folder(token: str) -> Path:
    """The run's own folder in shared memory; made when weights are published.

    Raises:
        RefitError: ``token`` is not a plain name.
    """
    if not TOKEN.fullmatch(token):
        raise RefitError(
            "a folder in shared memory for this run",
            f"run token {token!r}",
            "use letters, digits, dots, dashes and underscores",
        )
    return SHARED_MEMORY / token


def publish(state: Mapping[str, torch.Tensor], path: Path) -> list[str]:
    """Write full, unsharded tensors for all engines of this machine; whole or not at all.

    Args:
        state: checkpoint name to tensor, in the engines' dtype. A tied tensor appears once, under
            the name that the checkpoint has.
        path: where the engines will look; its folder is made.

    Returns:
        The sorted names.

    Raises:
        RefitError: nothing to publish, or no room in shared memory.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    size = sum(tensor.nbytes for tensor in state.values())
    asked = f"{len(state)} tensors of {size} bytes published at {path}"
    if not state:
        raise RefitError(asked, "no tensors", "publish the policy's full state")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Asked before writing: a mapped page that has no room ends a process instead of raising.
        free = shutil.disk_usage(path.parent).free
        if free <= size:
            todo = "free shared memory, or give it more"
            raise RefitError(asked, f"{free} bytes free there", todo)
        save_file({name: tensor.detach().contiguous() for name, tensor in state.items()}, partial)
        partial.replace(path)
    except (OSError, RuntimeError, SafetensorError) as error:
        # A RuntimeError is two names that share one tensor.
        raise RefitError(
            asked, str(error), "name each tensor once, make that folder writable, and leave it room"
        ) from error
    finally:
        if path.parent.is_dir():
            partial.unlink(missing_ok=True)
    return sorted(state)


def withdraw(path: Path) -> None:
    """Remove published weights, and their folder when it is empty; engines that map them go on."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


class SharedMemoryWeights:
    """Published weights, mapped and not copied. Made by :func:`opened`."""

    def __init__(self, path: Path, handle: Any) -> None:
        self._path = path
        self._handle = handle

    def manifest(self) -> list[TensorInfo]:
        """Every tensor in the file; a name that is there twice is listed twice."""
        return read_manifest(self._path)

    def tensor(self, name: str) -> torch.Tensor:
        """One full tensor over the mapped file."""
        tensor: torch.Tensor = self._handle.get_tensor(name)
        return tensor


@contextmanager
def opened(path: Path) -> Iterator[SharedMemoryWeights]:
    """Map published weights.

    Raises:
        RefitError: no such file, or not a safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as handle:
            yield SharedMemoryWeights(path, handle)
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from error


def read_manifest(path: Path) -> list[TensorInfo]:
    """Read the header of a safetensors file without merging duplicate names.

    Format: eight bytes with the header's length (little endian), then a JSON object from name to
    ``dtype``, ``shape`` and ``data_offsets`` (https://huggingface.co/docs/safetensors).

    Raises:
        RefitError: no such file, or not a safetensors file.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")
            # Objects become lists of pairs, so that a name that is there twice stays twice.
            header = file.read(min(length, LONGEST_HEADER_BYTES))
            pairs = json.loads(header, object_pairs_hook=list)
        return [_info(name, dict(fields)) for name, fields in pairs if name != "__metadata__"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(path, error) from error


def _info(name: str, fields: Mapping[str, Any]) -> TensorInfo:
    return TensorInfo(name, DTYPES.get(fields["dtype"], fields["dtype"]), tuple(fields["shape"]))


def _unreadable(path: Path, error: Exception) -> RefitError:
    return RefitError(
        f"published weights at {path}",
        f"{type(error).__name__}: {error}",
        "publish the policy's state there before the engines load it",
    )


# safetensors' names of the dtypes that an engine may serve.
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
