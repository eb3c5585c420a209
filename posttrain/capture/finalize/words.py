"""What goes into the finalizer and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from posttrain.capture.finalize.causes import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot
    from nemo_gym.token_id_capture.staging.records import RolloutManifest

    from posttrain.sample import Sample


class Staging(Protocol):
    """Where the engines stage the calls' tokens, as the trainer reads it.

    Calls are blocking and may come from several threads.
    """

    def fetch(self, staging_keys: list[str]) -> list[StagedCallBaseSnapshot]:
        """The record of each key, in order; raises when one is missing or was evicted."""

    def extras(self, staging_keys: Sequence[str]) -> list[dict[str, Any] | None]:
        """What each call staged besides tokens, in order."""

    def retire(self, staging_keys: Sequence[str]) -> None:
        """Let go of the records; of a key that was never staged there is nothing to do."""


class Manifests(Protocol):
    """Who tells what the ledger knows: see `posttrain.capture.gate.client.ManifestClient`."""

    async def manifest(self, rollout_id: str) -> RolloutManifest:
        """The manifest of a rollout; raises a `GateError`."""


@dataclass(frozen=True)
class Scored:
    """A rollout that an agent and its environment have finished.

    Attributes:
        sample_id: the id that the rollout ran under, which is its capture key.
        row: index of the dataset row.
        answer: what the agent's ``/run`` returned.
        arrived: when it did, by ``time.monotonic``; rows are timed from there.
    """

    sample_id: str
    row: int
    answer: Mapping[str, Any]
    arrived: float


@dataclass(frozen=True)
class Finalized:
    """A rollout's place in its group: a verified row, or a placeholder of which nothing is trained.

    Attributes:
        sample_id: the capture key.
        row: index of the dataset row.
        sample: the row; None: this is a placeholder.
        cause: of a placeholder, the first one, a name of `posttrain.capture.finalize.causes`.
        detail: what exactly was found, for people.
        staging_keys: of every call of the rollout that may have staged something.
        last_weight_version: the newest that generated a token of the row; the sample has the
            oldest. None in a placeholder.
        continuations: calls that went on where an earlier one of the rollout had ended, or had to.
        token_in: those of them whose prompt provably began with the earlier call's exact tokens.
        staged_bytes: of the staged tokens with their masks and log-probabilities.
        seconds: from the scored answer's arrival until the row was verified.
    """

    sample_id: str
    row: int
    sample: Sample | None = None
    cause: str | None = None
    detail: str = ""
    staging_keys: tuple[str, ...] = ()
    last_weight_version: int | None = None
    continuations: int = 0
    token_in: int = 0
    staged_bytes: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if (self.sample is None) == (self.cause is None):
            msg = f"{self.sample_id}: a row has no cause, and a placeholder has one: {self.cause}"
            raise ValueError(msg)
        if self.cause is not None and self.cause not in CAUSES:
            msg = f"{self.sample_id}: cause {self.cause!r} is not in the table of causes"
            raise ValueError(msg)
