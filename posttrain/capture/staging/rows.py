"""A staged call as a row of plain fields, and back: every token and every float32 bit survives."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot, staging_key

from posttrain.capture.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nemo_gym.token_id_capture.staging import StagedCallRecord

    from posttrain.dataplane import Row, Value

# Of the base snapshot, and what stays behind the key until somebody asks for it.
BASE = ("record", "token_ids", "token_mask", "logprobs")
FIELDS = (*BASE, "extras", "attachments")

# Field of the row -> field of Gym's record.
_ARRAYS = {
    "token_ids": ("token_ids_delta", np.int64),
    "token_mask": ("token_mask_delta", np.float32),
    "logprobs": ("generation_log_probs_delta", np.float32),
}
_SCALARS = frozenset(StagedCallBaseSnapshot.model_fields) - {name for name, _ in _ARRAYS.values()}
_ATTACHMENTS = "attachments_sha256"


def encode(record: StagedCallRecord, attachments: bytes) -> Row:
    """Make the row of a call; each has all of ``FIELDS``, empty where there is nothing.

    Gym's digest covers log-probabilities as float32, and so they are kept.

    Args:
        record: validated, as Gym hands it to a sink.
        attachments: as :func:`posttrain.capture.staging.attachments.pack` makes them.

    Raises:
        OverflowError: a token id that does not fit 64 bits with a sign.
    """
    scalars = {name: getattr(record, name) for name in _SCALARS}
    scalars[_ATTACHMENTS] = hashlib.sha256(attachments).hexdigest()
    row: dict[str, Value] = {
        field: np.array(getattr(record, name), dtype=dtype)
        for field, (name, dtype) in _ARRAYS.items()
    }
    row["record"] = _canonical(scalars)
    row["extras"] = b"" if record.extras is None else _canonical(record.extras)
    row["attachments"] = attachments
    return row


def decode(key: str, row: Row) -> StagedCallBaseSnapshot:
    """Make the snapshot of a row with the fields ``BASE``.

    Digests are not computed again: ``verify_and_linearize`` does that with every snapshot, and it
    is most of its cost.

    Raises:
        CorruptRecordError: a row of another call, or with columns of other lengths.
    """
    scalars = _scalars(key, row)
    del scalars[_ATTACHMENTS]
    columns = {name: np.asarray(row[field]).tolist() for field, (name, _) in _ARRAYS.items()}
    snapshot = StagedCallBaseSnapshot.model_construct(**scalars, **columns)
    found = staging_key(snapshot.rollout_id, snapshot.model_call_id)
    lengths = [len(column) for column in columns.values()]
    if found != key or lengths != [snapshot.delta_len] * len(columns):
        raise changed(key, f"{found} with {snapshot.delta_len} tokens and columns of {lengths}")
    return snapshot


def changed(key: str, found: str) -> CorruptRecordError:
    """Say that a row is not what was staged under its key."""
    return CorruptRecordError(
        f"the staged call {key}",
        found,
        "make its rollout again: the row was changed after it was written",
    )


def identity(key: str, row: Row) -> tuple[str, str]:
    """Gym's digest of the record, and the SHA-256 of its attachments.

    Raises:
        CorruptRecordError: the row has no such thing.
    """
    scalars = _scalars(key, row)
    return str(scalars["digest"]), str(scalars[_ATTACHMENTS])


def extras(key: str, row: Row) -> dict[str, Any] | None:
    """The extras of a row with the field ``extras``; None when the call has none.

    Raises:
        CorruptRecordError: they are not JSON.
    """
    stored = octets(row, "extras")
    return _parsed(key, "extras", stored) if stored else None


def nbytes(row: Row) -> int:
    """Size of a row's fields in bytes."""
    return sum(
        len(value) if isinstance(value, bytes) else np.asarray(value).nbytes
        for value in row.values()
    )


def octets(row: Row, field: str) -> bytes:
    """A field that is bytes.

    Raises:
        CorruptRecordError: it is something else.
    """
    value = row[field]
    if not isinstance(value, bytes):
        raise CorruptRecordError(
            f"a staged call with bytes as its {field}",
            type(value).__name__,
            "keep rows of other kinds in another partition",
        )
    return value


def _scalars(key: str, row: Row) -> dict[str, Any]:
    scalars = _parsed(key, "record", octets(row, "record"))
    if (found := scalars.keys() - {_ATTACHMENTS}) != _SCALARS:
        raise CorruptRecordError(
            f"a staged call with the fields {', '.join(sorted(_SCALARS))}",
            f"{', '.join(sorted(found))}",
            "read it with the version of Gym that staged it",
        )
    return scalars


def _parsed(key: str, field: str, stored: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(stored)
    except ValueError as error:
        raise changed(key, f"{field} of {len(stored)} bytes: {error}") from error
    if not isinstance(parsed, dict):
        raise changed(key, f"{field}: {type(parsed).__name__} instead of an object")
    return parsed


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
