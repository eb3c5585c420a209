"""GRPO advantages: a reward compared with those of the other rollouts of the same prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posttrain.advantages.rollout import by_group, group_centred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.advantages.rollout import Rollout


def grpo(
    rollouts: Sequence[Rollout],
    *,
    normalise_std: bool,
    leave_one_out: bool,
    epsilon: float = 0.0,
) -> list[list[float]]:
    """Compute A_i = (r_i - b_i) / (s + epsilon) within each group of n rollouts.

    The baseline b_i is the mean of the group's rewards (GRPO, Shao et al. 2024, arXiv:2402.03300,
    section 4.1.2), or with ``leave_one_out`` the mean of the n - 1 others, which makes the
    advantage n / (n - 1) times as large and the gradient free of the bias that a rollout's own
    reward in its baseline causes (RLOO, Ahmadian et al. 2024, arXiv:2402.14740, equation 8). With
    ``normalise_std``, s is the deviation of all n rewards of the group with divisor n - 1, as the
    known implementations have it (the paper leaves the divisor open), also together with
    ``leave_one_out``: that of the others alone would be 0 for the one right answer of a group.
    Without, the difference is not divided, so that prompts that nearly always or nearly never
    succeed do not weigh more (Dr. GRPO, Liu et al. 2025, arXiv:2503.20783).

    Args:
        rollouts: those that are trained on; no divergence may be given, GRPO has none in the
            reward.
        normalise_std: whether to divide by the group's deviation.
        leave_one_out: whether a rollout's own reward stays out of its baseline.
        epsilon: added to the deviation; not negative.

    Returns:
        One list a rollout, the same value for each of its completion tokens. Zeros where all
        rewards of a group are equal, and where a group has one rollout: nothing distinguishes it.

    Raises:
        ValueError: there is no rollout, or one carries divergences.
    """
    if any(rollout.kl for rollout in rollouts):
        raise ValueError("GRPO has no divergence in the reward")
    advantages = group_centred(rollouts)
    for places in by_group(rollouts).values():
        count, differences = len(places), advantages[places]
        if not differences.any():
            continue
        # r_i - (n mean - r_i) / (n - 1) = (r_i - mean) n / (n - 1)
        scale = count / (count - 1) if leave_one_out else 1.0
        if normalise_std:
            scale /= np.sqrt((differences**2).sum() / (count - 1)) + epsilon
        advantages[places] = differences * scale
    return [
        [float(advantage)] * rollout.tokens
        for advantage, rollout in zip(advantages, rollouts, strict=True)
    ]
