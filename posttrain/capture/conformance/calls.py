"""Calls of a sink and a source, with what the protocols promise of any answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot, StageResult

from posttrain.capture.conformance.failure import Failed, require
from posttrain.capture.conformance.records import differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nemo_gym.token_id_capture.staging import (
        StagedCallRecord,
        StagingSink,
        StagingSource,
    )


class Staged(NamedTuple):
    """What came of staging a call: its key, or why it was refused; one of them is empty."""

    key: str
    refusal: str


def staged(
    sink: StagingSink, record: StagedCallRecord, attachments: Mapping[str, Any] | None = None
) -> Staged:
    """Stage a call that may be refused: by its result or by an exception, as a sink likes."""
    try:
        if attachments is None:
            result = sink.stage(record)
        else:
            result = sink.stage(record, attachments=attachments)
    except Exception as error:  # noqa: BLE001 - see above
        return Staged("", f"{type(error).__name__}: {error}")
    if not isinstance(result, StageResult):
        return Staged("", f"stage returned {type(result).__name__}, not a StageResult")
    if result.ok:
        return Staged(str(result.staging_key), "")
    return Staged("", result.error or "no reason")


def stage(sink: StagingSink, record: StagedCallRecord) -> str:
    """Stage a call that must be taken; returns its key.

    Raises:
        Failed: it was refused.
    """
    key, refusal = staged(sink, record)
    require(not refusal, f"stage refused {record.staging_key}: {refusal}")
    return key


def fetch(source: StagingSource, keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
    """Fetch calls that are there.

    Raises:
        Failed: the source raised, or returned something else than snapshots.
    """
    try:
        found = source.fetch(list(keys))
    except Exception as error:
        raise Failed(f"fetch raised {type(error).__name__}: {error}") from error
    strange = [
        type(each).__name__ for each in found if not isinstance(each, StagedCallBaseSnapshot)
    ]
    require(not strange, f"fetch returned {', '.join(strange)}, not StagedCallBaseSnapshot")
    return list(found)


def fetch_each(source: StagingSource, keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
    """Fetch calls that are there one by one, so that no order matters.

    Raises:
        Failed: as for :func:`fetch`, or not one snapshot for one key.
    """
    found = [fetch(source, [key]) for key in keys]
    for key, each in zip(keys, found, strict=True):
        require(len(each) == 1, f"{len(each)} snapshots for the key {key}")
    return [snapshot for (snapshot,) in found]


def same(
    records: Sequence[StagedCallRecord], snapshots: Sequence[StagedCallBaseSnapshot], where: str
) -> None:
    """Require that snapshots are exactly the records.

    Raises:
        Failed: naming the call and its first difference.
    """
    require(
        len(records) == len(snapshots),
        f"{len(snapshots)} snapshots for {len(records)} keys {where}",
    )
    for record, snapshot in zip(records, snapshots, strict=True):
        text = differences(record, snapshot)
        require(not text, f"{record.staging_key} came back changed {where}: {text}")
