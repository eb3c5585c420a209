"""The finalizer: every scored rollout becomes a verified row or a placeholder with its cause."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from nemo_gym.token_id_capture.staging.records import staging_key

from posttrain.capture.errors import StagingError
from posttrain.capture.finalize.ledger import Ledger, forget, read_intents
from posttrain.capture.finalize.refused import RefusedError
from posttrain.capture.finalize.threads import Threads
from posttrain.capture.finalize.verify import Verified, verify
from posttrain.capture.finalize.words import Finalized
from posttrain.capture.gate.errors import GateError
from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from posttrain.capture.finalize.words import Manifests, Scored, Staging

T = TypeVar("T")
# Calls to the staging area at once.
THREADS = 8


@dataclass(frozen=True)
class Finalizer:
    """Belongs to one event loop; may finalize any number of rollouts at once.

    Attributes:
        manifests: the gate's ledger.
        staging: the calls' tokens.
        folder: of the ledger, for the intents.
        deadline_s: seconds that the staging area may take for one rollout.
    """

    manifests: Manifests
    staging: Staging
    folder: Path
    deadline_s: float
    _threads: Threads = field(default_factory=lambda: Threads(THREADS), init=False, repr=False)

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
            verified = await self._verified(scored, ledger)
            known |= vars(verified)
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
        except StackError:
            raise
        except Exception as error:
            # The staging area may be somebody else's code.
            found = f"{type(error).__name__}: {error}"
            if isinstance(error, TimeoutError):
                found = f"no answer from the staging area within {self.deadline_s:g} s"
            asked = f"{len(staging_keys)} staged calls retired"
            raise StagingError(asked, found, "retire them again") from error
        for sample_id in rows:
            forget(self.folder, sample_id)

    async def _ledger(self, scored: Scored) -> Ledger:
        # Intents last: a call that begins in between shows up as one without an end.
        manifest = await self.manifests.manifest(scored.sample_id)
        return Ledger(manifest, read_intents(self.folder, scored.sample_id))

    async def _verified(self, scored: Scored, ledger: Ledger) -> Verified:
        try:
            return await self._staged(verify, scored, ledger, self.staging)
        except TimeoutError:
            found = f"no tokens from the staging area within {self.deadline_s:g} s"
            raise RefusedError("staging_late", found) from None

    async def _staged(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a blocking call to the staging area, for at most the deadline."""
        async with asyncio.timeout(self.deadline_s):
            return await self._threads.call(call, *arguments)
