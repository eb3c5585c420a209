"""Log-probabilities of tokens under the distribution they were drawn from, out of whole logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.sampling import Distribution


@dataclass(frozen=True)
class Shapes:
    """The distributions of a sequence of tokens, as tensors of shape (tokens,).

    Attributes:
        divisors: of the logits, float32.
        top_k: how many tokens are kept, whole numbers; 0: all. None where no token has a top-k.
        top_p: the kept tokens' probability, float32. None where no token has a top-p below 1.
    """

    divisors: torch.Tensor
    top_k: torch.Tensor | None
    top_p: torch.Tensor | None


def shapes(
    drawn_from: Sequence[Distribution], counts: torch.Tensor, device: torch.device
) -> Shapes:
    """Lay distributions out, one a sequence, for sequences of `counts` tokens."""

    def spread(values: Sequence[float], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device).repeat_interleave(counts)

    top_k, top_p = [each.top_k for each in drawn_from], [each.top_p for each in drawn_from]
    return Shapes(
        divisors=spread([each.divisor for each in drawn_from], torch.float32),
        top_k=spread(top_k, torch.long) if any(top_k) else None,
        top_p=spread(top_p, torch.float32) if min(top_p) < 1 else None,
    )


def token_logprobs(
    logits: torch.Tensor, targets: torch.Tensor, drawn_from: Shapes
) -> tuple[torch.Tensor, torch.Tensor]:
    """Score tokens, and tell which of them the filters here would not have kept.

    A sampled token was in the set that the engine kept. Where this side's filters leave it out,
    rounding put the border elsewhere (or the weights differ): the token is added to the set, which
    then is the engine's if only the border moved. Its log-probability is finite and has a gradient,
    and parity metrics show how far the two sides are apart.

    Args:
        logits: scores of the vocabulary, shape (tokens, vocabulary).
        targets: the sampled tokens' ids, shape (tokens,).
        drawn_from: what they were drawn from.

    Returns:
        Natural log-probabilities in float32, and True for a token that was left out; both of shape
        (tokens,).
    """
    scaled = logits.float() / drawn_from.divisors.unsqueeze(-1)
    chosen = targets.unsqueeze(-1)
    outside = torch.zeros_like(targets, dtype=torch.bool)
    if drawn_from.top_k is not None or drawn_from.top_p is not None:
        kept = _kept(scaled.detach(), drawn_from)
        outside = ~kept.gather(-1, chosen).squeeze(-1)
        scaled = scaled.masked_fill(~kept.scatter(-1, chosen, value=True), -torch.inf)
    return scaled.log_softmax(-1).gather(-1, chosen).squeeze(-1), outside


def _kept(scaled: torch.Tensor, drawn_from: Shapes) -> torch.Tensor:
    """True for the tokens that top-k and then top-p keep, shape (tokens, vocabulary).

    The border is where vLLM 0.29 has it (its sampler in PyTorch, which also runs on a CPU): tokens
    as likely as the k-th are kept with it, and of the tokens in ascending order those are dropped
    whose cumulated probability, in float32, is at most 1 - p. The likeliest is always kept.
    """
    ascending, order = scaled.sort(-1)
    vocabulary = scaled.shape[-1]
    if drawn_from.top_k is not None:
        unlimited = drawn_from.top_k == 0
        count = drawn_from.top_k.clamp(1, vocabulary).masked_fill(unlimited, vocabulary)
        least = ascending.gather(-1, (vocabulary - count).unsqueeze(-1))
        ascending = ascending.masked_fill(ascending < least, -torch.inf)
    dropped = ascending == -torch.inf
    if drawn_from.top_p is not None:
        below = _cumulated(ascending.softmax(-1)) <= 1 - drawn_from.top_p.unsqueeze(-1)
        # Without a top-p nothing is dropped, not even what has no probability in float32.
        dropped |= below & (drawn_from.top_p < 1).unsqueeze(-1)
        dropped[..., -1:] = False
    return torch.zeros_like(dropped).scatter(-1, order, ~dropped)


def _cumulated(probabilities: torch.Tensor) -> torch.Tensor:
    """Sum up along the last dimension, on accelerators too.

    PyTorch refuses that on CUDA while it is told to be deterministic. Another order of additions
    moves a border by a rounding, which the engine's own sum does as well.
    """
    strict = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=strict and not probabilities.is_cuda)
    try:
        return probabilities.cumsum(-1)
    finally:
        torch.use_deterministic_algorithms(mode=strict)
