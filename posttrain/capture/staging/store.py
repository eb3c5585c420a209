"""Gym's staging sink and source in one; where the rows lie is the subclass's business."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import StagedCallRecord, StageResult, staging_key
from safetensors import SafetensorError

from posttrain.capture.errors import MissingRecordError
from posttrain.capture.staging import rows
from posttrain.capture.staging.attachments import pack, unpack
from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot

    from posttrain.dataplane import Row


class Store(ABC):
    """Where the tokens of model calls are kept until a training row is made of them.

    A call is staged once. The same record again is answered as the first time; another record
    under the same key is refused, and so is anything that cannot be kept whole. May be used by
    several threads, and by several processes that open the same place.
    """

    def stage(
        self, record: StagedCallRecord, *, attachments: Mapping[str, Any] | None = None
    ) -> StageResult:
        """Make a call durable, attachments included, before this returns.

        Args:
            record: Gym's validated record of the call.
            attachments: by name, numeric numpy arrays or bytes.

        Returns:
            The key, or why the call was not staged.
        """
        if not isinstance(record, StagedCallRecord):
            raise TypeError(f"stage takes a StagedCallRecord, not {type(record).__name__}")
        key = staging_key(record.rollout_id, record.model_call_id)
        try:
            row = rows.encode(record, pack(attachments))
            if self._insert(key, row) or not (conflict := self._conflict(key, row)):
                return StageResult(ok=True, staging_key=key)
        except (StackError, OSError, OverflowError, TypeError) as error:
            return StageResult(ok=False, error=f"{key}: {type(error).__name__}: {error}")
        return StageResult(ok=False, error=conflict)

    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        """Fetch one snapshot for each key, in the order of the keys; no keys, no snapshots.

        Their digests are not computed again here: ``verify_and_linearize`` does it.

        Raises:
            MissingRecordError: keys that are not staged (each is named).
            CorruptRecordError: a row that is not what its key says.
        """
        found = self._all(staging_keys, rows.BASE)
        return [rows.decode(key, row) for key, row in zip(staging_keys, found, strict=True)]

    def extras(self, staging_keys: Sequence[str]) -> list[dict[str, Any] | None]:
        """Fetch the extras of each call, in the order of the keys; None where there are none.

        Raises:
            MissingRecordError: keys that are not staged.
            CorruptRecordError: extras that are not what was staged.
        """
        found = self._all(staging_keys, ("extras",))
        return [rows.extras(key, row) for key, row in zip(staging_keys, found, strict=True)]

    def attachments(self, key: str) -> dict[str, Any]:
        """Fetch the attachments of one call by name; none give an empty mapping.

        Raises:
            MissingRecordError: it is not staged.
            CorruptRecordError: they are not what was staged.
        """
        (row,) = self._all([key], ("attachments",))
        try:
            return unpack(rows.octets(row, "attachments"))
        except SafetensorError as error:
            raise rows.changed(key, f"attachments: {error}") from error

    def sizes(self, staging_keys: Sequence[str]) -> list[int]:
        """Bytes that each staged call takes: all fields, without what the store itself adds.

        Raises:
            MissingRecordError: keys that are not staged.
        """
        return [rows.nbytes(row) for row in self._all(staging_keys, rows.FIELDS)]

    def retire(self, staging_keys: Sequence[str]) -> None:
        """Forget calls that no row will be made of any more; unknown keys are ignored."""
        if staging_keys:
            self._delete(staging_keys)

    @abstractmethod
    def close(self) -> None:
        """Give up connections; what is staged stays. May be called more than once."""

    @abstractmethod
    def _insert(self, key: str, row: Row) -> bool:
        """Make a row durable, whole or not at all; False when the key is taken."""

    @abstractmethod
    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        """Those of the rows that are there, by key."""

    @abstractmethod
    def _delete(self, keys: Sequence[str]) -> None:
        """Remove the rows that are there; a key may be of none."""

    def _all(self, keys: Sequence[str], fields: Sequence[str]) -> list[Row]:
        if not keys:
            return []
        found = self._find(list(dict.fromkeys(keys)), fields)
        if lost := [key for key in dict.fromkeys(keys) if key not in found]:
            raise missing(lost)
        return [found[key] for key in keys]

    def _conflict(self, key: str, row: Row) -> str:
        """Say how what is staged under a key differs from a row; nothing when it does not."""
        (staged,) = self._all([key], ("record",))
        was, now = rows.identity(key, staged), rows.identity(key, row)
        if was == now:
            return ""
        if was[0] == now[0]:
            return f"{key} is staged with attachments {was[1]}, and not again with {now[1]}"
        return f"{key} is staged with digest {was[0]}, and not again with {now[0]}"


def missing(
    keys: Sequence[str], kind: type[MissingRecordError] = MissingRecordError
) -> MissingRecordError:
    """Say which of the keys that were asked for are not there."""
    return kind(
        "staged calls by their keys",
        f"not staged, or retired: {', '.join(keys)}",
        "ask only for keys that a manifest names, before they are retired",
    )
