"""How the single controller reads captured rollouts: through the finalizer, within admission."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from posttrain.capture.finalize.finalizer import Finalizer
from posttrain.capture.finalize.metrics import capture_metrics
from posttrain.capture.finalize.words import Scored
from posttrain.capture.gate.admission import Admission
from posttrain.capture.gate.identity import captured
from posttrain.controller.words import Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from posttrain.capture.finalize.words import Finalized, Staging
    from posttrain.capture.gate.servers import Gate
    from posttrain.config.token_capture import TokenCapture


class CapturedReader:
    """Belongs to one event loop.

    Args:
        gate: Gym's servers, started.
        staging: where the engines stage their tokens.
        settings: the recipe's, with capture on.
        rollouts: that may be under way at once.
        say: writes a line for people into the log of the run.
    """

    def __init__(
        self,
        gate: Gate,
        staging: Staging,
        settings: TokenCapture,
        rollouts: int,
        say: Callable[[str], None],
    ) -> None:
        self._gate = gate
        self._deadline_s, self._gate_memory_mb, turns = settings.wanted
        self._manifests = gate.manifests(self._deadline_s)
        self._finalizer = Finalizer(self._manifests, staging, gate.folder, self._deadline_s)
        self._admission = Admission(rollouts, turns)
        self._say = say
        # Until they are retired, by their ids.
        self._kept: dict[str, Finalized] = {}
        # What could not be retired so far: keys of staged calls, and ids of rows.
        self._keys: set[str] = set()
        self._rows: set[str] = set()
        self._unreported: list[Finalized] = []

    def request(self, body: Mapping[str, Any], sample_id: str) -> dict[str, Any]:
        """What the agent's ``/run`` is sent instead of ``body``."""
        return captured(body, sample_id)

    def slot(self) -> AbstractAsyncContextManager[None]:
        """To be held while a rollout is under way."""
        return self._admission.rollout()

    async def read(
        self, rollout: int, sample_id: str, row: int, answer: Mapping[str, Any], arrived: float
    ) -> Finished:
        """Make a row or a placeholder of a scored rollout.

        Args:
            rollout: its number in the group.
            sample_id: the id that it ran under.
            row: index of the dataset row.
            answer: of the agent's ``/run``.
            arrived: when the answer did, by ``time.monotonic``.
        """
        finalized = await self._finalizer.finalize(Scored(sample_id, row, answer, arrived))
        self._kept[sample_id] = finalized
        self._unreported.append(finalized)
        if finalized.cause is not None:
            detail = " ".join(finalized.detail.split())
            self._say(f"placeholder {sample_id} (row {row}): {finalized.cause}: {detail}")
        return Finished(
            rollout,
            finalized.sample,
            finalized.cause or "",
            finalized.last_weight_version,
        )

    async def retire(self, sample_ids: Sequence[str], *, counted: bool = True) -> None:
        """Let go of what was staged for these rollouts, scored or not.

        Args:
            sample_ids: the rollouts.
            counted: whether the metrics of the step are about them; not when they were a
                validation's.

        Raises:
            StackError: the staging area did not; the next call retires these too.
        """
        kept = {it: self._kept.pop(it) for it in sample_ids if it in self._kept}
        if not counted:
            self._unreported = [it for it in self._unreported if it.sample_id not in kept]
        for sample_id in sample_ids:
            found = kept.get(sample_id)
            self._keys.update(
                found.staging_keys if found else self._finalizer.staging_keys(sample_id)
            )
        self._rows.update(it for it, finalized in kept.items() if finalized.sample is not None)
        keys, rows = sorted(self._keys), sorted(self._rows)
        await self._finalizer.retire(keys, rows)
        self._keys.difference_update(keys)
        self._rows.difference_update(rows)

    def take_metrics(self) -> dict[str, float]:
        """Metrics ``capture/*`` of the rollouts that were read since the last call."""
        taken, self._unreported = self._unreported, []
        return capture_metrics(taken)

    async def between_steps(self) -> None:
        """Recycle the gate when it has grown, as soon as no rollout is under way.

        Raises:
            WorkerError: it did not come up again.
        """
        if self._gate.resident_mb > self._gate_memory_mb:
            async with self._admission.paused():
                await asyncio.to_thread(self._gate.recycle, self._gate_memory_mb)

    async def close(self) -> None:
        """Close connections."""
        await self._manifests.close()
