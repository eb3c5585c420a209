"""From a recipe's ``advantages`` section to the advantage of every completion token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.advantages.grpo import grpo
from posttrain.advantages.reinforce import reinforce_plus_plus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.advantages.rollout import Rollout
    from posttrain.config.objective import Advantages


def advantages(own: Advantages, rollouts: Sequence[Rollout]) -> list[list[float]]:
    """Compute the advantages of the kind that the recipe names.

    Args:
        own: the recipe's section.
        rollouts: those that are trained on, with divergences from the reference policy exactly
            where ``own.kl_coefficient`` is above 0.

    Returns:
        One list a rollout, one value a completion token: see the kinds.

    Raises:
        ValueError: there is no rollout.
    """
    # The schema has an epsilon wherever a deviation divides.
    epsilon = own.epsilon or 0.0
    if own.kind == "grpo":
        return grpo(
            rollouts,
            normalise_std=own.normalise_std,
            leave_one_out=own.leave_one_out,
            epsilon=epsilon,
        )
    return reinforce_plus_plus(
        rollouts,
        baseline=own.kind == "reinforce_plus_plus_baseline",
        kl_coefficient=own.kl_coefficient,
        epsilon=epsilon,
    )
