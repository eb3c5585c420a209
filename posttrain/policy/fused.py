"""Log-probabilities straight from hidden states: a chunk of the logits at a time, never all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear


@dataclass(frozen=True)
class Tokens:
    """What is to be scored.

    Attributes:
        targets: token ids, shape (tokens,).
        divisors: of the logits, shape (tokens,), float32.
        chunk: tokens whose logits exist at a time.
    """

    targets: torch.Tensor
    divisors: torch.Tensor
    chunk: int

    def parts(self) -> list[slice]:
        """The chunks."""
        return [slice(at, at + self.chunk) for at in range(0, len(self.targets), self.chunk)]


class LinearLogprobs(torch.autograd.Function):
    """log-softmax(hidden @ weight.T / divisor)[target] for each token.

    Whole logits of long sequences are the largest tensor of a training step by far: tokens x
    vocabulary, several times over. Here only those of one chunk of tokens exist at a time. The
    backward pass computes them again: with p the softmax, the gradient with respect to a token's
    logits is (one-hot(target) - p) / divisor.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, tokens: Tokens
    ) -> torch.Tensor:
        """Score tokens.

        Args:
            ctx: autograd's.
            hidden: what the head is given, shape (tokens, width).
            weight: the head's, shape (vocabulary, width).
            tokens: what is to be scored.

        Returns:
            Natural log-probabilities in float32, shape (tokens,).
        """
        ctx.save_for_backward(hidden, weight)
        ctx.tokens = tokens
        values = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        for part in tokens.parts():
            scores = _log_softmax(hidden[part], weight, tokens.divisors[part])
            values[part] = scores.gather(-1, tokens.targets[part].unsqueeze(-1)).squeeze(-1)
        return values

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        """Gradients of `hidden` and `weight`, in their types; summed up in float32."""
        hidden, weight = ctx.saved_tensors
        tokens: Tokens = ctx.tokens
        of_hidden, of_weight, _ = ctx.needs_input_grad
        hidden_gradient = torch.empty_like(hidden) if of_hidden else None
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if of_weight else None
        for part in tokens.parts():
            share = (gradient[part] / tokens.divisors[part]).unsqueeze(-1)
            wanted = tokens.targets[part].unsqueeze(-1)
            logits = _log_softmax(hidden[part], weight, tokens.divisors[part]).exp_().mul_(-share)
            logits.scatter_(-1, wanted, logits.gather(-1, wanted) + share)
            logits = logits.to(weight.dtype)
            if hidden_gradient is not None:
                hidden_gradient[part] = logits @ weight
            if weight_gradient is not None:
                weight_gradient += logits.T @ hidden[part]
        if weight_gradient is not None:
            weight_gradient = weight_gradient.to(weight.dtype)
        return hidden_gradient, weight_gradient, None


def linear_logprobs(hidden: torch.Tensor, weight: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Score tokens without their whole logits: see :class:`LinearLogprobs`."""
    values: torch.Tensor = LinearLogprobs.apply(hidden, weight, tokens)
    return values


def _log_softmax(
    hidden: torch.Tensor, weight: torch.Tensor, divisors: torch.Tensor
) -> torch.Tensor:
    # In the weights' type first, as the engine does, and only then in float32.
    logits = linear(hidden, weight).float()
    return logits.div_(divisors.unsqueeze(-1)).log_softmax(-1)
