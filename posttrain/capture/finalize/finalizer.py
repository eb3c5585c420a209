"""The finalizer: every scored rollout becomes a verified row or a placeholder with its cause."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nemo_gym.token_id_capture.staging.records import staging_key

from posttrain.capture.errors import CorruptRecordError, MissingRecordError
from posttrain.capture.finalize.ledger import Ledger, forget, read_intents
from posttrain.capture.finalize.receipt import build_receipt
from posttrain.capture.finalize.refused import RefusedError
from posttrain.capture.finalize.row import (
    calls_with_extras,
    linearize,
    scored_response,
    to_captured_sample,
    weight_versions,
)
from posttrain.capture.finalize.words import Finalized
from posttrain.capture.gate.errors import GateError
from posttrain.dataplane.errors import (
    EvictedError,
    MissingFieldError,
    MissingKeyError,
    PlaneTimeoutError,
    UnavailableError,
)
from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nemo_gym.token_id_capture.staging import LinearizedRow, RolloutReceipt

    from posttrain.capture.finalize.words import Manifests, Scored, Staging

T = TypeVar("T")
# An id of 8 bytes, a mask of 4, a log-probability of 4.
_TOKEN_BYTES = 16
# The first that fits.
_STAGING_CAUSES: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((MissingRecordError, MissingKeyError, MissingFieldError), "staged_missing"),
    ((EvictedError,), "staged_evicted"),
    ((PlaneTimeoutError, TimeoutError), "staging_late"),
    ((UnavailableError,), "staging_dead"),
    ((CorruptRecordError,), "invalid_snapshot"),
    ((StackError, ValueError, OSError), "staging_failed"),
)
_STAGING_ERRORS = (StackError, ValueError, OSError)


@dataclass(frozen=True)
class Finalizer:
    """Belongs to one event loop; may finalize any number of rollouts at once.

    Attributes:
        manifests: the gate's ledger.
        staging: the calls' tokens.
        folder: of the ledger, for the intents.
        deadline_s: seconds that one call to the staging area may take.
    """

    manifests: Manifests
    staging: Staging
    folder: Path
    deadline_s: float

    async def finalize_group(self, rollouts: Sequence[Scored]) -> list[Finalized]:
        """Finalize a group: exactly one result for each rollout, in their order."""
        return list(await asyncio.gather(*map(self.finalize, rollouts)))

    async def finalize(self, scored: Scored) -> Finalized:
        """Verify one rollout. Whatever is wrong with its tokens ends in the placeholder's cause."""
        known: dict[str, Any] = {}
        try:
            ledger = await self._ledger(scored)
            known |= {
                "staging_keys": ledger.staging_keys,
                "continuations": ledger.continuations,
                "token_in": ledger.token_in,
            }
            known |= await self._row(scored, ledger)
        except GateError as error:
            keys = self.staging_keys(scored.sample_id)
            known = {"cause": error.cause, "detail": error.found, "staging_keys": keys}
        except RefusedError as error:
            known |= {"cause": error.cause, "detail": error.found}
        seconds = time.monotonic() - scored.arrived
        return Finalized(scored.sample_id, scored.row, seconds=seconds, **known)

    def staging_keys(self, sample_id: str) -> tuple[str, ...]:
        """Keys of all calls of a rollout as far as the gate need not be asked."""
        calls = read_intents(self.folder, sample_id)
        return tuple(staging_key(sample_id, call) for call in calls)

    async def retire(self, staging_keys: Sequence[str], rows: Sequence[str] = ()) -> None:
        """Let go of what was staged under these keys, and of the ledgers of these rows.

        Call it when the rows are durable elsewhere, or when nobody will ask for them any more. The
        ledger of what did not become a row is better kept, as evidence.

        Args:
            staging_keys: of any calls, staged or not.
            rows: ids of rollouts.

        Raises:
            StackError: the staging area did not let go of everything; call it again.
        """
        try:
            await self._staged(self.staging.retire, list(staging_keys))
        except TimeoutError:
            raise StackError(
                f"{len(staging_keys)} staged calls retired",
                f"no answer from the staging area within {self.deadline_s:g} s",
                "retire them again",
            ) from None
        for sample_id in rows:
            forget(self.folder, sample_id)

    async def _ledger(self, scored: Scored) -> Ledger:
        # Intents last: a call that begins in between shows up as one without an end.
        manifest = await self.manifests.manifest(scored.sample_id)
        return Ledger(manifest, read_intents(self.folder, scored.sample_id))

    async def _row(self, scored: Scored, ledger: Ledger) -> dict[str, Any]:
        """What a finalized rollout has when its tokens are verified.

        Raises:
            RefusedError: they are not.
        """
        ledger.check()
        response = scored_response(scored)
        reward = float(scored.answer["reward"])
        receipt = build_receipt(ledger.manifest, response, reward)
        keys = [record.staging_key for record in receipt.manifest]
        row, extras = await self._fetched(self._read, receipt, keys)
        oldest, newest = weight_versions(row, extras)
        return {
            "sample": to_captured_sample(scored, response, row, oldest),
            "last_weight_version": newest,
            "staged_bytes": _TOKEN_BYTES * sum(it.delta_len for it in receipt.manifest),
        }

    def _read(
        self, receipt: RolloutReceipt, keys: list[str]
    ) -> tuple[LinearizedRow, dict[str, dict[str, Any] | None]]:
        row = linearize(receipt, self.staging.fetch(keys))
        by_call = {record.model_call_id: record.staging_key for record in receipt.manifest}
        calls = calls_with_extras(row)
        extras = self.staging.extras([by_call[call] for call in calls]) if calls else []
        return row, dict(zip(calls, extras, strict=True))

    async def _fetched(self, read: Callable[..., T], *arguments: Any) -> T:
        """As :meth:`_staged`, with every error as a cause."""
        try:
            return await self._staged(read, *arguments)
        except RefusedError:
            raise
        except _STAGING_ERRORS as error:
            cause = next(cause for kinds, cause in _STAGING_CAUSES if isinstance(error, kinds))
            found = error.found if isinstance(error, StackError) else str(error)
            raise RefusedError(cause, f"{type(error).__name__}: {found}") from error

    async def _staged(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a blocking call to the staging area, for at most the deadline."""
        async with asyncio.timeout(self.deadline_s):
            return await asyncio.to_thread(call, *arguments)
