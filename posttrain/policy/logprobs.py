"""Token log-probabilities as the engine reports them, recomputed from the policy's logits."""

from __future__ import annotations

import math

import torch

MINIMUM_TEMPERATURE = 0.01  # vLLM raises a positive temperature below this to it


def effective_temperature(temperature: float) -> float:
    """Return the divisor of the logits with which the engine scores tokens.

    At temperature 0 the engine decodes greedily and reports log-probabilities of the unscaled
    logits, so the divisor is 1.

    Raises:
        ValueError: the temperature is negative or not finite.
    """
    if not math.isfinite(temperature) or temperature < 0:
        raise ValueError(f"a temperature is finite and not negative: {temperature}")
    return 1.0 if temperature == 0 else max(temperature, MINIMUM_TEMPERATURE)


def token_logprobs(logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the natural log-probability of each target token, in float32.

    Only the temperature shapes the distribution: nucleus and top-k filters would need the same
    filter here, so recipes that set them are refused.

    Args:
        logits: scores of the vocabulary, shape (..., vocabulary).
        targets: token ids, shape (...).
        temperature: the sampling temperature.

    Returns:
        Log-probabilities, shape (...).
    """
    scaled = logits.float() / effective_temperature(temperature)
    return torch.log_softmax(scaled, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
