"""Sinks for the conformance suite: the ones that work, and ones with exactly one fault each."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from nemo_gym.token_id_capture.staging import StageResult, staging_key
from safetensors.numpy import save

from posttrain.capture.errors import MissingRecordError
from posttrain.capture.staging.files import FileStore
from posttrain.capture.staging.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot, StagedCallRecord

    from posttrain.dataplane import Row


def files(place: str) -> tuple[FileStore, FileStore]:
    store = FileStore(Path(place) / "staged")
    return store, store


def sqlite(place: str) -> tuple[SqliteStore, SqliteStore]:
    store = SqliteStore(Path(place) / "staged.sqlite")
    return store, store


def content(row: Row) -> bytes:
    """What a file of `FileStore` has in it."""
    arrays = {
        name: np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    return bytes(save(arrays))


class DropsAttachments(FileStore):
    def stage(
        self, record: StagedCallRecord, *, attachments: Mapping[str, Any] | None = None
    ) -> StageResult:
        del attachments
        return super().stage(record)


class HidesAttachments(FileStore):
    """Keeps them, as it says, and nobody can ever see them."""

    attachments = None  # type: ignore[assignment]


class DropsExtras(FileStore):
    def _insert(self, key: str, row: Row) -> bool:
        return super()._insert(key, {**row, "extras": b""})


class _OtherLogprobs(FileStore):
    def change(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def _insert(self, key: str, row: Row) -> bool:
        changed = self.change(np.asarray(row["logprobs"])).astype(np.float32)
        return super()._insert(key, {**row, "logprobs": changed})


class HalfPrecision(_OtherLogprobs):
    def change(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with np.errstate(all="ignore"):
            return np.nan_to_num(values.astype(np.float16), posinf=65504.0, neginf=-65504.0)


class SixDigits(_OtherLogprobs):
    def change(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array([float(f"{value:.6g}") for value in values.tolist()])


class FlushesSubnormals(_OtherLogprobs):
    def change(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.float32(0), values)


class UnsignedZero(_OtherLogprobs):
    def change(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return values + np.float32(0)


class ShortTokenIds(FileStore):
    def _insert(self, key: str, row: Row) -> bool:
        short = np.asarray(row["token_ids"]).astype(np.uint16).astype(np.int64)
        return super()._insert(key, {**row, "token_ids": short})


class NamesFilesByKey(FileStore):
    def _path(self, key: str) -> Path:
        return self._folder / f"{key.replace('/', '_')}.safetensors"


class RefusesAgain(FileStore):
    def _conflict(self, key: str, row: Row) -> str:
        del row
        return f"{key} is staged"


class SwallowsConflicts(FileStore):
    def _conflict(self, key: str, row: Row) -> str:
        del key, row
        return ""


class LastWins(FileStore):
    def _insert(self, key: str, row: Row) -> bool:
        with suppress(MissingRecordError):
            if not super()._conflict(key, row):
                return True
        self._delete([key])
        return super()._insert(key, row)


class LooksBeforeItWrites(FileStore):
    """Two that look at the same time both find nothing."""

    def _insert(self, key: str, row: Row) -> bool:
        if self._path(key).exists():
            return False
        time.sleep(0.005)
        part = self._folder / f"{threading.get_ident()}.part"
        part.write_bytes(content(row))
        part.replace(self._path(key))
        return True


class SharedIndex(FileStore):
    """Reads, changes and writes a list of its keys, and takes no lock for it."""

    @property
    def _index(self) -> Path:
        return self._folder / "index.json"

    def _keys(self) -> list[str]:
        with suppress(FileNotFoundError):
            return list(json.loads(self._index.read_text()))
        return []

    def _insert(self, key: str, row: Row) -> bool:
        keys = self._keys()
        time.sleep(0.001)
        part = self._folder / f"{threading.get_ident()}.part"
        part.write_text(json.dumps([*keys, key]))
        part.replace(self._index)
        return super()._insert(key, row)

    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        known = {*self._keys()}
        if lost := [key for key in staging_keys if key not in known]:
            raise KeyError(", ".join(lost))
        return super().fetch(staging_keys)


class SortsAnswers(FileStore):
    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        return super().fetch(sorted(staging_keys))


class SkipsMissing(FileStore):
    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        there = [key for key in staging_keys if self._path(key).exists()]
        return super().fetch(there)


class AnonymousError(FileStore):
    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        try:
            return super().fetch(staging_keys)
        except MissingRecordError:
            raise LookupError("no such record") from None


class WritesInPlace(FileStore):
    """The file has its name before it has its content."""

    def _insert(self, key: str, row: Row) -> bool:
        whole = content(row)
        try:
            with self._path(key).open("xb") as file:
                file.write(whole[: len(whole) // 2])
                file.flush()
                time.sleep(0.05)
                file.write(whole[len(whole) // 2 :])
        except FileExistsError:
            return False
        return True


class WritesLater(FileStore):
    """Returns at once and writes a little later; whoever looks meanwhile is made to wait."""

    LATER_S = 0.2
    _pending: dict[str, Row] = {}  # noqa: RUF012 - shared by all clients of a process, on purpose
    _lock = threading.Lock()

    def _insert(self, key: str, row: Row) -> bool:
        with self._lock:
            if key in self._pending or self._path(key).exists():
                return False
            self._pending[key] = row
        threading.Timer(self.LATER_S, self._write, [key, row]).start()
        return True

    def _write(self, key: str, row: Row) -> None:
        super()._insert(key, row)
        with self._lock:
            self._pending.pop(key, None)

    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        end = time.monotonic() + 3 * self.LATER_S
        while True:
            found = dict(super()._find(keys, fields))
            with self._lock:
                found |= {key: self._pending[key] for key in keys if key in self._pending}
            if len(found) == len(keys) or time.monotonic() > end:
                return found
            time.sleep(0.01)


class ListsOnce(FileStore):
    """Knows what was there when it was made, and what its own process has staged since."""

    _own: set[Path] = set()  # noqa: RUF012 - shared by all clients of a process, on purpose

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._known = {*folder.iterdir()}

    def _insert(self, key: str, row: Row) -> bool:
        inserted = super()._insert(key, row)
        if inserted:
            self._own.add(self._path(key))
        return inserted

    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        known = self._known | self._own
        if lost := [key for key in staging_keys if self._path(key) not in known]:
            raise KeyError(", ".join(lost))
        return super().fetch(staging_keys)


class Deadlocks(FileStore):
    """Works for one thread; two at once wait for each other for ever."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._busy = threading.Lock()

    def _insert(self, key: str, row: Row) -> bool:
        if not self._busy.acquire(blocking=False):
            threading.Event().wait()
        inserted = super()._insert(key, row)
        time.sleep(0.002)
        self._busy.release()
        return inserted


class SaysNothing(FileStore):
    """Takes every call, and does not say so as the protocol has it."""

    def stage(
        self, record: StagedCallRecord, *, attachments: Mapping[str, Any] | None = None
    ) -> StageResult:
        super().stage(record, attachments=attachments)
        return staging_key(record.rollout_id, record.model_call_id)  # type: ignore[return-value]


# The only check that each of them fails.
BROKEN: dict[type[FileStore], str] = {
    DropsAttachments: "attachments",
    HidesAttachments: "attachments",
    DropsExtras: "extras",
    HalfPrecision: "float32_exact",
    SixDigits: "float32_exact",
    FlushesSubnormals: "float32_exact",
    UnsignedZero: "float32_exact",
    ShortTokenIds: "round_trip",
    NamesFilesByKey: "round_trip",
    RefusesAgain: "idempotent_restage",
    SwallowsConflicts: "conflicting_restage",
    LastWins: "conflicting_restage",
    LooksBeforeItWrites: "conflicting_restage",
    SharedIndex: "concurrent_calls",
    SortsAnswers: "fetch_order",
    SkipsMissing: "missing_keys",
    AnonymousError: "missing_keys",
    WritesInPlace: "atomic_under_kill",
    WritesLater: "durable_before_return",
    ListsOnce: "visible_across_processes",
}


def _factory(kind: type[FileStore]) -> Callable[[str], tuple[FileStore, FileStore]]:
    def make(place: str) -> tuple[FileStore, FileStore]:
        folder = Path(place) / "staged"
        folder.mkdir(exist_ok=True)
        store = kind(folder)
        return store, store

    return make


# By its class's name, as the suite asks for a factory.
globals().update(
    {kind.__name__.lower(): _factory(kind) for kind in [*BROKEN, SaysNothing, Deadlocks]}
)


def pair(place: str) -> tuple[str, str]:
    return place, place
