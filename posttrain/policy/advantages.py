"""REINFORCE++ advantages: rewards normalised over the whole batch of sequences."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

EPSILON = 1e-8


def global_advantages(rewards: Sequence[float], epsilon: float = EPSILON) -> list[float]:
    """Return each sequence's advantage, A_i = (r_i - mean) / (std + epsilon), signed.

    Mean and standard deviation are those of the whole batch, not of one prompt's group
    (REINFORCE++, Hu 2025, arXiv:2501.03262, without its optional KL term). Each sequence counts
    once, however long it is, and every token of a sequence has the sequence's advantage. The
    deviation is the population's (divisor n): the batch is all there is, and rewards 0 and 1 in
    equal numbers give exactly opposite advantages of magnitude 1, but for epsilon.

    Args:
        rewards: one finite reward a sequence.
        epsilon: keeps nearly equal rewards from being blown up; not negative.

    Returns:
        Advantages in the same order; zeros where all rewards are equal, since nothing
        distinguishes the sequences.

    Raises:
        ValueError: there is no reward, or one is not finite.
    """
    if not rewards:
        raise ValueError("advantages need at least one reward")
    if not all(math.isfinite(reward) for reward in rewards):
        raise ValueError(f"rewards must be finite: {list(rewards)}")
    if min(rewards) == max(rewards):  # rounding of the mean must not tell equal rewards apart
        return [0.0] * len(rewards)
    mean = statistics.fmean(rewards)
    deviation = math.sqrt(statistics.fmean([(reward - mean) ** 2 for reward in rewards]))
    return [(reward - mean) / (deviation + epsilon) for reward in rewards]
