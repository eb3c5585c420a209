"""Why a rollout is a placeholder instead of a row: every cause, where it comes from, its meaning.

Gym's reason codes keep their names. ``docs/capture.md`` has this table; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["ledger", "terminal", "receipt", "gate", "staging", "rollout"]


@dataclass(frozen=True)
class Cause:
    """One cause.

    Attributes:
        name: as metrics and placeholders say it: lower-case letters, digits, underscores.
        origin: who found it: the gate's ``ledger`` while the rollout ran (which poisons it),
            the choice of the ``terminal`` call, the verification of the ``receipt``, a call to the
            ``gate``, to the ``staging`` area, or the scored ``rollout`` itself.
        meaning: what happened.
    """

    name: str
    origin: Origin
    meaning: str


_LEDGER = {
    "unresolved_parent": "the call claims a history that no single earlier call has: the agent"
    " edited it, or went on after an identical call was made twice",
    "request_finished_without_staged_coordinates": "the call ended before the engine had staged its"
    " tokens: an engine error, a cancelled request, an answer that the gate made itself",
    "worker_response_missing_commit_coordinates": "the engine answered without saying that it"
    " staged the tokens: its capture is off, or it is another server",
    "worker_capture_failed": "the engine's staging failed: the sink did not take the record, or the"
    " prompt did not begin with the parent's tokens",
    "invalid_worker_commit_coordinates": "what the engine says that it staged is not what the gate"
    " admitted",
    "ledger_row_missing_response_id": "a ledger row has no id of the answer that it belongs to",
    "ledger_row_missing_chain_hash": "a ledger row has no digest to verify its tokens with",
    "missing_entry": "the gate meant to make this call and its ledger has neither a row nor a"
    " failure of it: the gate died in between, or its disk took no more",
    "unknown_reason": "the ledger gives a reason that is not in this table; the detail has it",
}
_TERMINAL = {
    "no_records": "the ledger has no call of the rollout: the agent did not go through the gate",
    "duplicate_call_id": "the ledger has two rows of one call",
    "orphaned_row": "a call continues one that the ledger does not have",
    "no_root": "every call continues another one",
    "ambiguous_terminal": "several calls could be the one whose answer was scored",
    "witness_disagreement": "the scored answer's id belongs to one call and its content to another",
}
_RECEIPT = {
    "corrupt_digest": "a staged record's content is not what its digest says",
    "corrupt_extras": "what a call staged besides its tokens is not what its digest says",
    "invalid_snapshot": "a staged record breaks its own rules",
    "wrong_record": "a staged record differs from the ledger in a field that both have; the detail"
    " names it",
    "row_count_mismatch": "staging returned another number of records than was asked for",
    "snapshot_order_mismatch": "staging returned the records in another order",
    "snapshot_identity_mismatch": "staging returned a record of another call",
    "duplicate_snapshot": "staging returned one record twice",
    "duplicate_staging_key": "two calls of the ledger share a staging key",
    "duplicate_manifest_row": "the manifest has two rows of one call",
    "empty_manifest": "the receipt has no call",
    "missing_parent": "a call continues one that the receipt does not have",
    "parent_length_mismatch": "a call does not begin where its parent ends",
    "lineage_cycle": "calls continue each other in a circle",
    "missing_terminal": "the receipt's terminal call is not in it",
    "chain_hash_mismatch": "a call's tokens do not extend its parent's chain of digests",
    "cumulative_hash_mismatch": "the joined tokens are not the sequence that the engine saw last",
    "invalid_mask_order": "a record has prompt tokens after generated ones",
    "empty_generation": "a record has no generated token",
    "empty_training_row": "no token of the sequence was generated",
    "unsupported_schema": "the receipt has another version of the schema than this Gym",
    "unsupported_digest": "the receipt has another version of the digest than this Gym",
    "unsupported_extras_digest": "the receipt has another version of the extras' digest",
    "invalid_receipt": "manifest and terminal call make no valid receipt",
}
_GATE = {
    "gate_unauthorized": "the gate refused the bearer",
    "gate_unreachable": "no connection to the gate, or it broke",
    "gate_late": "the gate did not answer within `token_capture.deadline_s`",
    "manifest_malformed": "the gate answered something else than this rollout's manifest",
}
_STAGING = {
    "staged_missing": "staging does not have a record that the engine said it staged",
    "staged_evicted": "a staged record was evicted before it was fetched",
    "staging_late": "staging did not answer within `token_capture.deadline_s`",
    "staging_dead": "a process of the data plane is dead, or lost the record",
    "staging_failed": "staging answered with another error; the detail has it",
}
_ROLLOUT = {
    "no_reward": "the environment gave no finite reward, or took it back",
    "gave_up": "the agent gave up before the environment had come to its end",
    "no_response": "the agent's answer has no complete response that was scored",
}

_MEANINGS: dict[Origin, dict[str, str]] = {
    "ledger": _LEDGER,
    "terminal": _TERMINAL,
    "receipt": _RECEIPT,
    "gate": _GATE,
    "staging": _STAGING,
    "rollout": _ROLLOUT,
}
CAUSES: dict[str, Cause] = {
    name: Cause(name, origin, meaning)
    for origin, meanings in _MEANINGS.items()
    for name, meaning in meanings.items()
}


def poisons(cause: str) -> bool:
    """Whether the cause was found while the rollout ran, call by call."""
    return CAUSES[cause].origin == "ledger"


def page() -> str:
    """The causes as a Markdown table, for docs/capture.md."""
    rows = [f"| `{cause.name}` | {cause.origin} | {cause.meaning} |" for cause in CAUSES.values()]
    return "\n".join(["| cause | found by | what happened |", "|---|---|---|", *rows]) + "\n"
