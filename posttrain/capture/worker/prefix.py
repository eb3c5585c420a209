"""The tokens that a continuation begins with, from what its ancestors have staged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_gym.token_id_capture.staging import compute_chain_hash

from posttrain.capture.errors import UnprovenPrefixError

if TYPE_CHECKING:
    from nemo_gym.token_id_capture.staging import CaptureAdmission, StagingSource


def resolve(admission: CaptureAdmission, source: StagingSource) -> list[int]:
    """Put the prefix of a continuation together, and prove that it is the one that was admitted.

    The gate sends no tokens but the keys of the ancestors' staged calls, oldest first; each call's
    hash covers those before it, and the last one must be the hash that the gate names.

    Args:
        admission: of mode ``token_in``.
        source: where the ancestors are staged.

    Returns:
        Exactly ``admission.prev_len`` token ids.

    Raises:
        UnprovenPrefixError: what is staged is not what was admitted.
        StackError: an ancestor is not staged, or cannot be read.
    """
    if not admission.staging_chain:
        return list(admission.required_prefix_token_ids)
    prefix: list[int] = []
    chain: str | None = None
    parent: str | None = None
    snapshots = source.fetch(list(admission.staging_chain))
    for key, snapshot in zip(admission.staging_chain, snapshots, strict=True):
        chain = compute_chain_hash(chain, snapshot.token_ids_delta)
        prefix += snapshot.token_ids_delta
        found = (snapshot.rollout_id, snapshot.parent_call_id, snapshot.chain_hash)
        if found != (admission.rollout_id, parent, chain):
            raise _unproven(
                admission,
                f"{key} is of rollout {found[0]}, continues {found[1]} and not {parent}, and has"
                f" the chain hash {found[2]} where its tokens give {chain}",
            )
        parent = snapshot.model_call_id
    if (parent, chain, len(prefix)) != (
        admission.parent_call_id,
        admission.parent_chain_hash,
        admission.prev_len,
    ):
        raise _unproven(
            admission,
            f"{len(prefix)} tokens that end with call {parent}, chain hash {chain}",
        )
    return prefix


def _unproven(admission: CaptureAdmission, found: str) -> UnprovenPrefixError:
    return UnprovenPrefixError(
        f"{admission.prev_len} tokens of rollout {admission.rollout_id} that end with call"
        f" {admission.parent_call_id}, chain hash {admission.parent_chain_hash}",
        found,
        "the call is answered, and its rollout is not trained; look at who else writes there",
    )
