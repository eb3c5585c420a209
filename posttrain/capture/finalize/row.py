"""Verify the staged tokens of a receipt and make a sample of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import (
    EMPTY_EXTRAS_DIGEST,
    ReceiptVerificationError,
    compute_extras_digest,
    verify_and_linearize,
)

from posttrain.capture.finalize.causes import CAUSES
from posttrain.capture.finalize.refused import RefusedError
from posttrain.environment.reward import flaw
from posttrain.errors import WorkerError
from posttrain.rollout.turn import output_items, text, was_truncated
from posttrain.sample import Sample, assemble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nemo_gym.token_id_capture.staging import (
        LinearizedRow,
        RolloutReceipt,
        StagedCallBaseSnapshot,
    )

    from posttrain.capture.finalize.words import Scored

# Where the engine says which weights generated which tokens of a call that ran through a refit.
_VERSIONS = "weight_versions"


def scored_response(scored: Scored) -> Mapping[str, Any]:
    """The response that the rollout's verdict is about.

    Raises:
        RefusedError: there is none, the reward is no measurement, or the agent gave up.
    """
    answer = scored.answer
    if reason := flaw(answer):
        raise RefusedError("no_reward", reason)
    response = answer.get("response")
    if not isinstance(response, dict):
        raise RefusedError("no_response", f"response {response!r} instead of an object")
    if not answer.get("terminated", True):
        raise RefusedError("gave_up", "the agent's answer says terminated: false")
    return response


def linearize(
    receipt: RolloutReceipt, snapshots: Sequence[StagedCallBaseSnapshot]
) -> LinearizedRow:
    """The sequence of the receipt's terminal call, every digest verified.

    Raises:
        RefusedError: with Gym's code for what is not as the receipt says.
    """
    try:
        return verify_and_linearize(receipt, snapshots)
    except ReceiptVerificationError as error:
        # Of the fields that ledger and record both have there is one code each.
        cause = error.code if error.code in CAUSES else "wrong_record"
        raise RefusedError(cause, str(error)) from error
    except (AttributeError, TypeError, ValueError) as error:
        # A source need not validate: what it gives may be no record at all.
        raise RefusedError("invalid_snapshot", f"{type(error).__name__}: {error}") from error


def weight_versions(
    row: LinearizedRow, extras: Mapping[str, dict[str, Any] | None]
) -> tuple[int, int]:
    """The oldest and the newest weights that generated a token of the row.

    Args:
        row: the row.
        extras: by call, of those calls that have any (:func:`calls_with_extras`).

    Raises:
        RefusedError: a call's extras are not what its digest says.
    """
    versions = list(row.weight_versions)
    for commitment in row.extras_commitments:
        call = commitment.model_call_id
        if call not in extras:
            continue
        if compute_extras_digest(extras[call]) != commitment.extras_digest:
            raise RefusedError("corrupt_extras", f"extras of call {call}: digest mismatch")
        spans = (extras[call] or {}).get(_VERSIONS, ())
        versions += [int(version) for _, version in spans]
    return min(versions), max(versions)


def calls_with_extras(row: LinearizedRow) -> list[str]:
    """The row's calls whose engine staged more than tokens."""
    return [
        commitment.model_call_id
        for commitment in row.extras_commitments
        if commitment.extras_digest != EMPTY_EXTRAS_DIGEST
    ]


def to_captured_sample(
    scored: Scored, response: Mapping[str, Any], row: LinearizedRow, weight_version: int
) -> Sample:
    """The sample of a verified row.

    Args:
        scored: the rollout.
        response: of it.
        row: its tokens.
        weight_version: the oldest that generated one of them.

    Raises:
        RefusedError: the response is incomplete for another reason than its length, or the engine
            saw no prompt.
    """
    try:
        truncated = was_truncated(scored.row, response)
        said = text(output_items(scored.row, response))
    except WorkerError as error:
        raise RefusedError("no_response", error.found) from error
    spans: list[tuple[int, int]] = []
    logprobs: list[float] = []
    position = 0
    for _, carried, generated in row.link_spans:
        start, position = position + carried, position + carried + generated
        spans.append((start, position))
        logprobs += row.logprobs[start:position]
    try:
        return assemble(
            row.token_ids,
            spans,
            logprobs,
            row=scored.row,
            reward=float(scored.answer["reward"]),
            truncated=truncated,
            text=said,
            weight_version=weight_version,
        )
    except ValueError as error:
        raise RefusedError("invalid_snapshot", str(error)) from error
