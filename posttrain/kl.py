"""Estimators of the Kullback-Leibler divergence from the probabilities of sampled tokens.

The divergence KL(p || q) is the mean over tokens x drawn from p of ln p(x) - ln q(x), in nats. With
d = ln p(x) - ln q(x), each estimator has (nearly) that mean over samples; they differ in how much
single tokens scatter (J. Schulman, "Approximating KL Divergence", 2020,
http://joschu.net/blog/kl-approx.html, where the ratio is exp(-d)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

Estimator = Literal["k1", "k2", "k3"]


def estimates(
    estimator: Estimator, sampled_from: Sequence[float], other: Sequence[float]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Estimate KL(p || q) from each token, in nats.

    - ``k1`` = d: without bias; a single token's may be negative.
    - ``k2`` = d^2 / 2: never negative, little scatter, a bias that is small where p and q are near.
    - ``k3`` = exp(-d) - 1 + d: without bias and never negative; overflows to infinity where q finds
      a token far likelier than p does.

    Args:
        estimator: which one.
        sampled_from: ln p(x) of the distribution from which the tokens x were drawn.
        other: ln q(x) of the same tokens.

    Returns:
        One estimate a token, as float64; not finite where a log-probability is not.

    Raises:
        ValueError: the lengths differ, or there is no such estimator.
    """
    p, q = np.asarray(sampled_from, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if p.shape != q.shape:
        raise ValueError(f"log-probabilities of {p.size} tokens beside those of {q.size}")
    # What is not finite stays visible in the result; a warning would say the same once more.
    with np.errstate(over="ignore", invalid="ignore"):
        difference = p - q
        if estimator == "k1":
            return difference
        if estimator == "k2":
            return difference**2 / 2
        if estimator == "k3":
            return np.expm1(-difference) + difference
    raise ValueError(f"no estimator {estimator!r}; there are k1, k2 and k3")
