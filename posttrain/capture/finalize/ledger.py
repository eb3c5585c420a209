"""What the gate's ledger says of one rollout: its calls, their order, and the first that failed.

The manifest has what became of calls. That a call was going to be made at all is only in the
intents file beside the ledger: one line a call, on the disk before the engine is asked. A call of
which the ledger has no end at all was lost, and nobody knows what it said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from nemo_gym.token_id_capture.staging.records import staging_key

from posttrain.capture.finalize.causes import CAUSES, poisons
from posttrain.capture.finalize.refused import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from nemo_gym.token_id_capture.staging.records import RolloutManifest


_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Ledger:
    """One rollout's calls.

    Attributes:
        manifest: those that ended, committed or failed.
        intents: ids of all calls that were going to be made, in order.
    """

    manifest: RolloutManifest
    intents: tuple[str, ...]

    @cached_property
    def _committed(self) -> dict[str, str]:
        """Keys of the calls that were committed."""
        return {record.model_call_id: record.staging_key for record in self.manifest.records}

    @property
    def staging_keys(self) -> tuple[str, ...]:
        """Keys of all calls, also of those that failed: some of them have staged all the same."""
        committed = self._committed
        others = [failure.model_call_id for failure in self.manifest.failures]
        calls = dict.fromkeys([*committed, *others, *self.intents])
        rollout = self.manifest.rollout_id
        return tuple(committed.get(call) or staging_key(rollout, call) for call in calls)

    @property
    def continuations(self) -> int:
        """Calls that went on where an earlier one of the rollout had ended, or had to.

        A committed call says whether it did. One that failed or was lost counts when it was not the
        rollout's first.
        """
        others = {failure.model_call_id for failure in self.manifest.failures} | set(self.intents)
        first = self.intents[0] if self.intents else None
        return self.token_in + len(others - self._committed.keys() - {first})

    @property
    def token_in(self) -> int:
        """Committed calls whose prompt began with the parent's exact tokens.

        The engine's side checks the tokens before it stages them, so a row of this mode is proof.
        """
        return sum(record.mode == "token_in" for record in self.manifest.records)

    def check(self) -> None:
        """Demand that every call was committed.

        Raises:
            RefusedError: with the first call that was not.
        """
        reasons: dict[str, str] = {}
        for failure in self.manifest.failures:
            reasons.setdefault(failure.model_call_id, failure.reason)
        for call in dict.fromkeys([*self.intents, *reasons]):
            if call in reasons:
                _refuse(call, reasons[call])
            if call not in self._committed:
                raise RefusedError("missing_entry", f"call {call} has an intent and no entry")


def _refuse(call: str, reason: str) -> None:
    known = reason in CAUSES and poisons(reason)
    cause = reason if known else "unknown_reason"
    raise RefusedError(cause, f"call {call}: {reason}")


def read_intents(folder: Path, rollout_id: str) -> tuple[str, ...]:
    """Ids of the calls that the gate was going to make for a rollout; none if it made none.

    Args:
        folder: of the ledger.
        rollout_id: a valid one.
    """
    try:
        text = _read(f"{folder}/{rollout_id}.tokens.intents")
    except FileNotFoundError:
        return ()
    return tuple(dict.fromkeys(text.decode().split()))


def _read(path: str) -> bytes:
    # Every rollout comes through here, between two times that are measured: no layers, no object.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, _CHUNK_BYTES), b""))
    finally:
        os.close(descriptor)


def forget(folder: Path, rollout_id: str) -> None:
    """Remove a rollout's ledger, whose row is safe elsewhere by now.

    A run would otherwise leave three files for each of its rollouts.
    """
    for ending in ("lineage.jsonl", "tokens.intents", "tokens.lock"):
        (folder / f"{rollout_id}.{ending}").unlink(missing_ok=True)
