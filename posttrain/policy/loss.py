"""The clipped policy loss, to be averaged over all completion tokens of the global batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Clip:
    """Bounds of the probability ratio: from 1 - `low` to 1 + `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class PolicyLoss:
    """A rank's part of the loss.

    Attributes:
        total: sum over the rank's completion tokens. Scalar, differentiable.
        clipped: how many of the rank's tokens the clip holds, as a scalar.
    """

    total: torch.Tensor
    clipped: torch.Tensor


def clipped_policy_loss(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    clip: Clip,
) -> PolicyLoss:
    """Sum - min(ratio * A, clip(ratio, 1 - low, 1 + high) * A) over completion tokens.

    This is the objective of PPO (Schulman 2017, arXiv:1707.06347, equation 7) with separate lower
    and upper bounds; ratio = exp(logprob - old logprob). Each token counts the same, however long
    its sequence is (a token-level mean). So the divisor is the number of completion tokens of all
    ranks together, which the caller knows. FSDP2 averages gradients over the ranks: a rank goes
    backward from total / tokens of all ranks * number of ranks.

    Args:
        logprobs: the policy's log-probabilities, shape (sequences, tokens).
        old_logprobs: the policy's log-probabilities before the step, same shape, no gradient.
        advantages: one a token, same shape.
        mask: True where a completion token is the target, same shape as `logprobs`.
        clip: bounds of the ratio.

    Returns:
        The rank's sum and its number of clipped tokens.
    """
    # A masked position may hold anything; exp of it must reach neither the sum nor its gradient.
    difference = torch.where(mask, logprobs - old_logprobs, torch.zeros_like(logprobs))
    ratio = difference.exp()
    plain = ratio * advantages
    held = ratio.clamp(1 - clip.low, 1 + clip.high) * advantages
    objective = torch.where(mask, torch.minimum(plain, held), torch.zeros_like(plain))
    return PolicyLoss(total=-objective.sum(), clipped=((held < plain) & mask).sum())
