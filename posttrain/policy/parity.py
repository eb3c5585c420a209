"""How far generation's and the policy's probabilities of the same tokens are apart.

docs/parity.md says what the figures mean and what to do about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from posttrain.kl import estimates

if TYPE_CHECKING:
    from collections.abc import Sequence

    LogProbs = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Parity:
    """The agreement of the two sides on a step's completion tokens.

    A figure is NaN or infinite where a log-probability is.

    Attributes:
        mean: mean over all tokens of exp(abs(policy - generation)), a ratio; 1 is equality.
        max: the largest of these ratios.
        kl_k1: KL(generation || policy) in nats a token, by the estimator k1 (`posttrain.kl`).
        kl_k3: the same by the estimator k3.
        sequences: the mean ratio of each sequence, in order.
    """

    mean: float
    max: float
    kl_k1: float
    kl_k3: float
    sequences: tuple[float, ...]

    def metrics(self) -> dict[str, float]:
        """The figures by the names of the metrics `train/*`."""
        return {
            "token_mult_prob_error": self.mean,
            "token_mult_prob_error_max": self.max,
            "sequence_mult_prob_error_max": max(self.sequences),
            "generation_kl_k1": self.kl_k1,
            "generation_kl_k3": self.kl_k3,
        }

    def beyond(self, limit: float | None) -> tuple[int, ...]:
        """The places of the sequences whose mean ratio is above ``limit``; none without a limit.

        Raises:
            ValueError: a sequence's ratio is not a number, which is above nothing.
        """
        if np.isnan(self.sequences).any():
            raise ValueError("the ratio of a sequence is not a number")
        return tuple(
            place
            for place, ratio in enumerate(self.sequences)
            if limit is not None and ratio > limit
        )


def measure(generation: LogProbs, policy: LogProbs) -> Parity:
    """Compare the log-probabilities of the same tokens on both sides.

    Args:
        generation: what the engine reported, one list a sequence, natural logarithms.
        policy: what the policy recomputed, lists of the same lengths.

    Raises:
        ValueError: there is no sequence, one has no token, or the lengths differ.
    """
    lengths = [len(row) for row in generation]
    if not lengths or not all(lengths) or lengths != [len(row) for row in policy]:
        found = f"{lengths} and {[len(row) for row in policy]} tokens"
        raise ValueError(f"parity compares the same completion tokens, at least one each: {found}")
    left = np.fromiter(chain.from_iterable(generation), np.float64)
    right = np.fromiter(chain.from_iterable(policy), np.float64)
    # What is not finite stays visible in the figures; a warning would say the same once more.
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(np.abs(right - left))
    ends = pairwise(np.cumsum([0, *lengths]))
    return Parity(
        mean=float(ratios.mean()),
        max=float(ratios.max()),
        kl_k1=float(estimates("k1", left, right).mean()),
        kl_k3=float(estimates("k3", left, right).mean()),
        sequences=tuple(float(ratios[start:end].mean()) for start, end in ends),
    )
