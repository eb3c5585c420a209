"""From a rollout's ledger to its verified row: everything but the way to the gate; blocking."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.capture.errors import (
    CorruptRecordError,
    EvictedRecordError,
    MissingRecordError,
)
from posttrain.capture.finalize.receipt import build_receipt
from posttrain.capture.finalize.refused import RefusedError
from posttrain.capture.finalize.row import (
    calls_with_extras,
    linearize,
    scored_response,
    to_captured_sample,
    weight_versions,
)
from posttrain.dataplane.errors import (
    EvictedError,
    MissingFieldError,
    MissingKeyError,
    PlaneTimeoutError,
    UnavailableError,
)
from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nemo_gym.token_id_capture.staging import LinearizedRow, RolloutReceipt

    from posttrain.capture.finalize.ledger import Ledger
    from posttrain.capture.finalize.words import Scored, Staging
    from posttrain.sample import Sample

# An id of 8 bytes, a mask of 4, a log-probability of 4.
_TOKEN_BYTES = 16
# The first that fits.
_CAUSES: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((EvictedRecordError, EvictedError), "staged_evicted"),
    ((MissingRecordError, MissingKeyError, MissingFieldError), "staged_missing"),
    ((PlaneTimeoutError, TimeoutError), "staging_late"),
    ((UnavailableError,), "staging_dead"),
    ((CorruptRecordError,), "invalid_snapshot"),
    ((Exception,), "staging_failed"),
)


@dataclass(frozen=True)
class Verified:
    """A verified row.

    Attributes:
        sample: the row; its weight version is the oldest that generated one of its tokens.
        last_weight_version: the newest.
        staged_bytes: of the tokens of all calls, with their masks and log-probabilities.
    """

    sample: Sample
    last_weight_version: int
    staged_bytes: int


def verify(scored: Scored, ledger: Ledger, staging: Staging) -> Verified:
    """Fetch what the rollout's calls have staged, verify it and join it.

    Args:
        scored: the rollout.
        ledger: its calls.
        staging: where their tokens are.

    Raises:
        RefusedError: it is not to be trained on, with the first cause.
    """
    ledger.check()
    response = scored_response(scored)
    receipt = build_receipt(ledger.manifest, response, float(scored.answer["reward"]))
    with _staging_errors():
        snapshots = staging.fetch([record.staging_key for record in receipt.manifest])
    row = linearize(receipt, snapshots)
    oldest, newest = weight_versions(row, _extras(row, receipt, staging))
    tokens = sum(record.delta_len for record in receipt.manifest)
    sample = to_captured_sample(scored, response, row, oldest)
    return Verified(sample, newest, _TOKEN_BYTES * tokens)


def _extras(
    row: LinearizedRow, receipt: RolloutReceipt, staging: Staging
) -> dict[str, dict[str, Any] | None]:
    """What the row's calls staged besides tokens, by call; only of those that staged any."""
    calls = calls_with_extras(row)
    if not calls:
        return {}
    keys = {record.model_call_id: record.staging_key for record in receipt.manifest}
    with _staging_errors():
        return dict(zip(calls, staging.extras([keys[call] for call in calls]), strict=True))


@contextmanager
def _staging_errors() -> Iterator[None]:
    """Make a cause of whatever the staging area says, which may be somebody else's code.

    Raises:
        RefusedError: in place of its error.
    """
    try:
        yield
    except Exception as error:
        cause = next(cause for kinds, cause in _CAUSES if isinstance(error, kinds))
        found = error.found if isinstance(error, StackError) else str(error)
        raise RefusedError(cause, f"{type(error).__name__}: {found}") from error
