"""How far generation's and the policy's probabilities of the same tokens are apart."""

from __future__ import annotations

import math
import statistics
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def token_mult_prob_error(
    generation: Sequence[Sequence[float]], policy: Sequence[Sequence[float]]
) -> float:
    """Return the mean over all tokens of exp(|generation - policy|), 1 for perfect agreement.

    Args:
        generation: log-probabilities that the engine reported, one list a sequence.
        policy: log-probabilities that the policy recomputed, lists of the same lengths.

    Returns:
        The factor by which a token's probability is off on average; NaN or infinite where a
        log-probability is.

    Raises:
        ValueError: there is no token, or the lengths differ.
    """
    pairs = chain.from_iterable(
        zip(left, right, strict=True) for left, right in zip(generation, policy, strict=True)
    )
    return statistics.fmean(_factor(abs(left - right)) for left, right in pairs)


def _factor(difference: float) -> float:
    try:
        return math.exp(difference)
    except OverflowError:  # beyond what a float holds
        return math.inf
