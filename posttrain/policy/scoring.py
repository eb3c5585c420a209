"""The ways in which the policy recomputes log-probabilities, behind one call."""

from __future__ import annotations

from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Protocol

import torch
from torch.distributed.fsdp import register_fsdp_forward_method
from torch.nn.functional import linear

from posttrain.errors import ModelError
from posttrain.policy.fused import Tokens, linear_logprobs
from posttrain.policy.logprobs import token_logprobs
from posttrain.sampling import FUSED, PLAIN, ScoringPath

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from posttrain.policy.batch import Batch

# What a head that is a matrix and nothing else may differ from the model's logits by, relative to
# the largest: both are float32, summed in another order.
_ROUNDING = 1e-4
_METHOD = "completion_logprobs"


@dataclass(frozen=True)
class Scores:
    """What a path says about a batch; everything at other tokens than the completions' is zero.

    Attributes:
        logprobs: natural log-probabilities in float32, shape (sequences, tokens - 1),
            differentiable.
        outside: how many completion tokens the policy's own filters would not have kept.
    """

    logprobs: torch.Tensor
    outside: torch.Tensor


class Scorer(Protocol):
    """A path. What it scores with may be any model of the kind that it was made for.

    Attributes:
        path: what it can do.
    """

    path: ScoringPath

    def attach(self, model: PreTrainedModel) -> PreTrainedModel:
        """Get a model that was just divided among the ranks ready, and return it."""

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Scores:
        """Score a batch's completion tokens.

        Raises:
            RecipeError: they were drawn in a way that this path cannot follow.
        """


class PlainScorer:
    """Whole logits of a batch, from the model's own forward pass: see :class:`Scorer`."""

    path = PLAIN

    def attach(self, model: PreTrainedModel) -> PreTrainedModel:
        """Nothing to do: FSDP2 knows the model's own pass."""
        return model

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Scores:
        """Score a batch's completion tokens."""
        self.path.check(batch.drawn_from)
        logits = model(batch.input_ids, use_cache=False).logits[:, :-1]
        values, outside = token_logprobs(
            logits[batch.mask], batch.targets[batch.mask], batch.shapes()
        )
        return Scores(batch.lay_out(values), outside.sum())


class FusedScorer:
    """Logits of one chunk of completion tokens at a time, from the head itself.

    Args:
        chunk: tokens whose logits exist at a time.
    """

    path = FUSED

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk

    def attach(self, model: PreTrainedModel) -> PreTrainedModel:
        """Make the pass to the log-probabilities one that FSDP2 gathers weights for."""
        # The head's weights are whole only inside a pass of the model that FSDP2 knows of.
        setattr(model, _METHOD, MethodType(_completion_logprobs, model))
        register_fsdp_forward_method(model, _METHOD)
        return model

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Scores:
        """Score a batch's completion tokens."""
        self.path.check(batch.drawn_from)
        values = getattr(model, _METHOD)(batch, self._chunk)
        return Scores(batch.lay_out(values), torch.zeros((), device=batch.mask.device))


def make_scorer(path: str, chunk: int, model: PreTrainedModel) -> Scorer:
    """The scorer of one of :data:`posttrain.sampling.PATHS`.

    Args:
        path: its name.
        chunk: tokens whose logits exist at a time, where not all do.
        model: a model of the kind that it will score with, not yet divided.

    Raises:
        ModelError: the path cannot score with this kind of model.
    """
    if path == PLAIN.name:
        return PlainScorer()
    _check_head(model)
    return FusedScorer(chunk)


def _completion_logprobs(model: PreTrainedModel, batch: Batch, chunk: int) -> torch.Tensor:
    hidden = model.base_model(batch.input_ids, use_cache=False).last_hidden_state[:, :-1]
    tokens = Tokens(batch.targets[batch.mask], batch.shapes().divisors, chunk)
    return linear_logprobs(hidden[batch.mask], model.get_output_embeddings().weight, tokens)


@torch.no_grad()
def _check_head(model: PreTrainedModel) -> None:
    """Compare two tokens' logits: some heads add a bias, cap their scores or scale them."""
    ids = torch.tensor([[0, 1]], device=model.device)
    logits = model(ids, use_cache=False).logits
    hidden = model.base_model(ids, use_cache=False).last_hidden_state
    head = model.get_output_embeddings()
    apart = float((linear(hidden, head.weight) - logits).abs().max())
    if not apart <= _ROUNDING * float(logits.abs().max()):
        raise ModelError(
            asked=f"log-probabilities of {type(model).__name__} by the path 'fused'",
            found=f"logits that are up to {apart:g} away from hidden states times the head's"
            " weights: the head does more than that",
            todo="set policy.logprobs to plain for this model",
        )
