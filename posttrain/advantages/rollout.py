"""What advantages are computed from, and the statistics that their kinds share."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Rollout:
    """One verified completion. Those that are masked are not among them.

    Attributes:
        group: the prompt that it answers; only rollouts of the same group are compared with each
            other.
        reward: the verifier's verdict, finite.
        tokens: completion tokens, at least 1.
        kl: divergence from the reference policy, one estimate a completion token, in nats
            (`posttrain.kl`); empty where no reference is kept.
    """

    group: int
    reward: float
    tokens: int
    kl: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a rollout of {self.tokens} completion tokens")
        if not math.isfinite(self.reward):
            raise ValueError(f"rewards must be finite: {self.reward}")
        if self.kl and len(self.kl) != self.tokens:
            raise ValueError(f"{len(self.kl)} divergences for {self.tokens} completion tokens")
        if not all(map(math.isfinite, self.kl)):
            raise ValueError(f"divergences from the reference must be finite: {list(self.kl)}")


def by_group(rollouts: Sequence[Rollout]) -> dict[int, list[int]]:
    """The places of each group's rollouts, groups in the order of their first one.

    Raises:
        ValueError: there is no rollout, so there is nothing to compare.
    """
    if not rollouts:
        raise ValueError("advantages need at least one rollout with its reward")
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, rollout in enumerate(rollouts):
        places[rollout.group].append(place)
    return dict(places)


def centred(values: np.ndarray) -> np.ndarray:
    """``values`` minus their mean; exact zeros where all are equal.

    Rounding of the mean must not tell equal values apart: divided by a deviation that is rounding
    too, it would become an advantage.
    """
    return np.zeros_like(values) if values.min() == values.max() else values - values.mean()


def group_centred(rollouts: Sequence[Rollout]) -> np.ndarray:
    """Each rollout's reward minus its group's mean reward, shape (rollouts,)."""
    rewards = np.array([rollout.reward for rollout in rollouts], dtype=np.float64)
    differences = np.zeros_like(rewards)
    for places in by_group(rollouts).values():
        differences[places] = centred(rewards[places])
    return differences
