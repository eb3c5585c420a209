"""Advantages: how rewards, and where asked the divergence from a reference, weigh each token."""

from posttrain.advantages.kinds import advantages
from posttrain.advantages.rollout import Rollout, by_group

__all__ = ["Rollout", "advantages", "by_group"]
