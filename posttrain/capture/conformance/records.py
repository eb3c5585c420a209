"""Staged calls for the checks, with right digests."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import (
    EXTRAS_DIGEST_VERSION,
    STAGING_DIGEST_VERSION,
    STAGING_SCHEMA_VERSION,
    StagedCallBaseSnapshot,
    StagedCallRecord,
    compute_chain_hash,
    compute_extras_digest,
    compute_staging_digest,
    hash_token_ids,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# What every number format keeps, so that only the check of precision finds a coarse one.
PLAIN = -0.25
# Ids that every integer format keeps.
PROMPT = (1, 2, 3)


def rollout() -> str:
    """A rollout id that no other check has."""
    return f"conformance-{uuid.uuid4().hex}"


def record(  # noqa: PLR0913 - the parts of a call
    rollout_id: str,
    call: str,
    *,
    prompt: Sequence[int] = PROMPT,
    generated: Sequence[int] = (7, 11, 12),
    logprobs: Sequence[float] | None = None,
    extras: dict[str, Any] | None = None,
    prompt_logprob: float = 0.0,
    weight_version: int = 3,
) -> StagedCallRecord:
    """Make the record of a first call of a rollout.

    Args:
        rollout_id: of the call.
        call: model call id.
        prompt: token ids, mask 0.
        generated: token ids, mask 1.
        logprobs: of the generated tokens; ``PLAIN`` for each unless given.
        extras: of the call.
        prompt_logprob: 0.0 with either sign.
        weight_version: that the call is stamped with.
    """
    values = [PLAIN] * len(generated) if logprobs is None else list(logprobs)
    tokens = [*prompt, *generated]
    fields: dict[str, Any] = {
        "schema_version": STAGING_SCHEMA_VERSION,
        "digest_version": STAGING_DIGEST_VERSION,
        "extras_digest_version": EXTRAS_DIGEST_VERSION,
        "rollout_id": rollout_id,
        "model_call_id": call,
        "parent_call_id": None,
        "mode": "text",
        "prev_len": 0,
        "delta_len": len(tokens),
        "cum_len": len(tokens),
        "weight_version": weight_version,
        "token_ids_delta": tokens,
        "token_mask_delta": [0.0] * len(prompt) + [1.0] * len(generated),
        "generation_log_probs_delta": [prompt_logprob] * len(prompt) + values,
        "extras_digest": compute_extras_digest(extras),
        "chain_hash": compute_chain_hash(None, tokens),
        "cumulative_hash": hash_token_ids(tokens),
    }
    return StagedCallRecord(**fields, digest=compute_staging_digest(**fields), extras=extras)


def base(record: StagedCallBaseSnapshot) -> dict[str, Any]:
    """The fields that a source must return, with every float as it prints exactly."""
    fields = record.model_dump(include=set(StagedCallBaseSnapshot.model_fields))
    return {
        name: [repr(each) for each in value] if isinstance(value, list) else value
        for name, value in fields.items()
    }


def differences(expected: StagedCallBaseSnapshot, found: StagedCallBaseSnapshot) -> str:
    """Name the first fields that differ, and how; nothing when none does."""
    wanted, have = base(expected), base(found)
    return "; ".join(
        _difference(name, wanted[name], have[name]) for name in wanted if wanted[name] != have[name]
    )


def _difference(name: str, wanted: Any, have: Any) -> str:
    if not isinstance(wanted, list):
        return f"{name} is {have!r} instead of {wanted!r}"
    if len(wanted) != len(have):
        return f"{name} has {len(have)} values instead of {len(wanted)}"
    wrong = [place for place in range(len(wanted)) if wanted[place] != have[place]]
    first = wrong[0]
    return (
        f"{name} differs in {len(wrong)} of {len(wanted)} values, first at {first}:"
        f" {have[first]} instead of {wanted[first]}"
    )
