"""REINFORCE++ advantages: returns normalised over the whole batch."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from posttrain.advantages.rollout import by_group, centred, group_centred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.advantages.rollout import Rollout


def reinforce_plus_plus(
    rollouts: Sequence[Rollout],
    *,
    baseline: bool,
    kl_coefficient: float = 0.0,
    epsilon: float = 0.0,
) -> list[list[float]]:
    """Compute A_t = (R_t - mean) / (std + epsilon), mean and std over all tokens of the batch.

    R_t = r - beta * (KL_t + KL_t+1 + ... + KL_T) is the return from token t on: the divergence
    from the reference policy is a negative reward at each token, the verifier's reward r comes with
    the last one, and nothing is discounted (REINFORCE++, Hu et al. 2025, arXiv:2501.03262). With
    ``baseline``, r is replaced by r minus the mean reward of its group (the same paper's variant
    with baseline); the divergence has no baseline.

    The batch is all there is, so the deviation is the population's. A token counts once, however
    long its sequence, as in the loss: so the advantages add up to 0 over what the loss adds up.

    Args:
        rollouts: those that are trained on.
        baseline: whether to subtract the mean reward of the rollout's group first.
        kl_coefficient: beta, a reward a nat; not negative.
        epsilon: added to the deviation, so that nearly equal returns are not blown up; not
            negative.

    Returns:
        One list a rollout with the advantage of each completion token; zeros where all returns
        are equal.

    Raises:
        ValueError: there is no rollout; or the coefficient is positive and a rollout has no
            divergences, or it is 0 and one has.
    """
    by_group(rollouts)
    if any(bool(rollout.kl) != (kl_coefficient > 0) for rollout in rollouts):
        raise ValueError(f"divergences do not go with a coefficient of {kl_coefficient}")
    rewards = [rollout.reward for rollout in rollouts]
    own = group_centred(rollouts) if baseline else rewards
    returns = [
        _returns(float(reward), rollout, kl_coefficient)
        for reward, rollout in zip(own, rollouts, strict=True)
    ]
    advantages = centred(np.concatenate(returns))
    if advantages.any():
        advantages /= np.sqrt((advantages**2).mean()) + epsilon
    ends = np.cumsum([0, *(rollout.tokens for rollout in rollouts)])
    return [advantages[start:end].tolist() for start, end in pairwise(ends)]


def _returns(reward: float, rollout: Rollout, kl_coefficient: float) -> np.ndarray:
    """The return from each token on: the reward minus the penalties of this token and all later."""
    if not rollout.kl:
        return np.full(rollout.tokens, reward)
    later = np.cumsum(np.array(rollout.kl)[::-1])[::-1]
    return reward - kl_coefficient * later
