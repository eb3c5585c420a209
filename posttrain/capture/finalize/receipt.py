"""The receipt of a scored rollout: all of its calls, and which of them the verdict is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import resolve_terminal, select_terminal_call
from nemo_gym.token_id_capture.staging.records import RolloutReceipt
from pydantic import ValidationError

from posttrain.capture.finalize.refused import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nemo_gym.token_id_capture.staging.records import RolloutManifest

_DISAGREEMENT = "witness_disagreement"


def build_receipt(
    manifest: RolloutManifest, response: Mapping[str, Any], reward: float
) -> RolloutReceipt:
    """Join the scored response to one call of the manifest.

    The response's id and its content must not name different calls. Where neither names one, the
    calls' links decide, if they leave no choice.

    Args:
        manifest: of a rollout of which no call failed.
        response: what was scored, in OpenAI's Responses form.
        reward: the verdict.

    Raises:
        RefusedError: no single call is the one that was scored, or the parts make no receipt.
    """
    records = manifest.records
    attribution = resolve_terminal(records, dict(response))
    terminal, method = attribution.model_call_id, attribution.method
    if terminal is None:
        if _DISAGREEMENT in attribution.reason:
            raise RefusedError(_DISAGREEMENT, attribution.reason)
        selection = select_terminal_call(records)
        terminal, method = selection.terminal_model_call_id, "heuristic"
        if terminal is None:
            raise RefusedError(selection.reason, f"{attribution.reason}; {selection.reason}")
    try:
        return RolloutReceipt(
            rollout_id=manifest.rollout_id,
            reward=reward,
            terminal_model_call_id=terminal,
            manifest=records,
            terminal_selection=method,
            terminal_attribution_reason=attribution.reason or None,
        )
    except ValidationError as error:
        raise RefusedError("invalid_receipt", str(error)) from error
