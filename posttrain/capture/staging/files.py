"""Staged calls as files: one for each, complete or not there."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from posttrain.capture.staging.rows import changed
from posttrain.capture.staging.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.dataplane import Row, Value

# Fields that are bytes; in the file they are arrays of bytes.
_BYTES = frozenset({"record", "extras", "attachments"})


class FileStore(Store):
    """One safetensors file for each call, named by the hash of its key.

    A file is written beside its place, flushed to the disk, and then linked to its name, which
    fails when the name is taken: no reader ever sees a part, and no writer replaces another's.

    Args:
        folder: on a file system with hard links, the same for every process; made when missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _path(self, key: str) -> Path:
        # A key may hold any text, and be longer than a file name.
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.safetensors"

    def _insert(self, key: str, row: Row) -> bool:
        path = self._path(key)
        part = path.with_suffix(f".{uuid.uuid4().hex}.part")
        try:
            with part.open("xb") as file:
                file.write(save({name: _array(value) for name, value in row.items()}))
                file.flush()
                os.fsync(file.fileno())
            try:
                path.hardlink_to(part)
            except FileExistsError:
                inserted = False
            else:
                inserted = True
        finally:
            part.unlink(missing_ok=True)
        # Also for a name that another writer made: it may not have come to this yet.
        self._sync_folder()
        return inserted

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        found: dict[str, Row] = {}
        for key in keys:
            path = self._path(key)
            try:
                with safe_open(path, framework="np") as file:
                    found[key] = {name: _value(name, file.get_tensor(name)) for name in fields}
            except FileNotFoundError:
                continue
            except SafetensorError as error:
                raise changed(key, f"{path}: {error}") from error
        return found

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._path(key).unlink(missing_ok=True)


def _array(value: Value) -> np.ndarray[Any, Any]:
    return np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value)


def _value(name: str, array: np.ndarray[Any, Any]) -> Value:
    return array.tobytes() if name in _BYTES else array
