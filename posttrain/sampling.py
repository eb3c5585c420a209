"""What sampling does to a distribution, and what log-probabilities therefore have to mean.

:func:`recomputed` is the one place that decides it; docs/sampling.md tells it at length. No torch
here: recipes are checked with it before anything is started.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from posttrain.errors import RecipeError, StackError

# A logit of any size that occurs, divided by this, is still finite in float32.
_SMALLEST_DIVISOR = 1e-30


@dataclass(frozen=True)
class Shaping:
    """What a request asks for that shapes the distribution of the next token.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token.
        top_p: keep the likeliest tokens that together have this probability; 1 keeps all.
        top_k: keep this many of the likeliest tokens; 0 keeps all.

    Raises:
        RecipeError: a value that means nothing.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        _require(
            "temperature",
            self.temperature,
            "finite and not negative",
            holds=math.isfinite(self.temperature) and self.temperature >= 0,
        )
        _require("top_p", self.top_p, "above 0 and at most 1", holds=0 < self.top_p <= 1)
        whole = isinstance(self.top_k, int) and not isinstance(self.top_k, bool)
        _require("top_k", self.top_k, "a whole number, 0 for all", holds=whole and self.top_k >= 0)


@dataclass(frozen=True)
class Distribution:
    """What a token's log-probability is of: log-softmax(logits / divisor) over the tokens kept.

    First the logits are divided, then `top_k` filters, then `top_p` what `top_k` left. The default
    is the model's own distribution.

    Attributes:
        divisor: of the logits.
        top_p: as in :class:`Shaping`.
        top_k: as in :class:`Shaping`.
    """

    divisor: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        Shaping(self.divisor, self.top_p, self.top_k)
        _require(
            "divisor",
            self.divisor,
            f"at least {_SMALLEST_DIVISOR:g}",
            holds=self.divisor >= _SMALLEST_DIVISOR,
        )

    @property
    def filtered(self) -> bool:
        """Whether it keeps some tokens only."""
        return self.top_p < 1 or self.top_k > 0


# What samples were drawn from: all from one, or each from its own.
Drawn: TypeAlias = Distribution | Sequence[Distribution]


@dataclass(frozen=True)
class Backend:
    """What a generation backend declares about its sampler.

    Attributes:
        name: in recipes.
        coldest: a positive temperature below this one is raised to it; 0: none is.
        hottest: it refuses temperatures above this one; infinite: none.
        processed: whether the log-probabilities that it reports are of the distribution that it
            draws from, with temperature and filters; else they are of the model's own.
    """

    name: str
    coldest: float
    hottest: float
    processed: bool


# Read in the backends' sources; only vLLM is an engine of this stack and measured by its tests.
BACKENDS = {
    backend.name: backend
    for backend in (
        # Started with `logprobs_mode` processed_logprobs (posttrain.generation.engine).
        Backend("vllm", coldest=0.01, hottest=2.0, processed=True),
        # vLLM behind a front end with the same limits.
        Backend("dynamo", coldest=0.01, hottest=2.0, processed=True),
        # Where a request asks for processed log-probabilities.
        Backend("tensorrt_llm", coldest=0.0, hottest=math.inf, processed=True),
        # Scores tokens by the logits as they come from the model.
        Backend("megatron", coldest=0.0, hottest=math.inf, processed=False),
    )
}


def recomputed(shaping: Shaping, backend: Backend) -> Distribution:
    """What the policy's recomputed log-probabilities have to be of.

    It is the distribution that the tokens were drawn from, which is also what the backend reports
    log-probabilities of. At temperature 0 nothing is drawn: the likeliest token is taken, and
    log-probabilities are, by convention, those of the model's own distribution, unscaled and
    unfiltered.

    Args:
        shaping: what the requests ask for.
        backend: who serves them.

    Raises:
        RecipeError: the backend refuses such requests, or reports log-probabilities of another
            distribution than it draws from, so that nothing could tell whether both sides agree.
    """
    if shaping.temperature > backend.hottest:
        raise RecipeError(
            f"sample with {backend.name} at temperature {shaping.temperature:g}",
            f"{backend.name} refuses temperatures above {backend.hottest:g}",
            f"give at most {backend.hottest:g}",
        )
    if shaping.temperature == 0:
        return Distribution()
    divisor = max(shaping.temperature, backend.coldest)
    drawn_from = Distribution(divisor, shaping.top_p, shaping.top_k)
    if drawn_from != Distribution() and not backend.processed:
        raise RecipeError(
            f"compare log-probabilities with {backend.name} at {_words(drawn_from)}",
            f"{backend.name} reports those of the model's own distribution, whatever it draws from",
            "give temperature 1 or 0 without top_p and top_k, or use another backend",
        )
    return drawn_from


@dataclass(frozen=True)
class ScoringPath:
    """What a way to recompute log-probabilities declares that it can do.

    Attributes:
        name: in recipes.
        any_temperature: whether it divides logits; else the divisor has to be 1.
        filters: whether it can apply top-k and top-p.
        because: why it cannot do the rest, for the error.
    """

    name: str
    any_temperature: bool
    filters: bool
    because: str = ""

    def check(self, drawn_from: Sequence[Distribution]) -> None:
        """Refuse what this path would get wrong.

        Raises:
            RecipeError: naming what was asked, and why the path cannot do it.
        """
        for each in drawn_from:
            if (each.divisor == 1 or self.any_temperature) and (not each.filtered or self.filters):
                continue
            raise RecipeError(
                f"log-probabilities at {_words(each)} by the path {self.name!r}",
                f"it {self._limits()}: {self.because}",
                "use the path 'plain', or sample within these limits",
            )

    def _limits(self) -> str:
        temperature = "any temperature" if self.any_temperature else "temperature 1 only"
        return f"takes {temperature}, and {'any' if self.filters else 'no'} top_p and top_k"


PLAIN = ScoringPath("plain", any_temperature=True, filters=True)
FUSED = ScoringPath(
    "fused",
    any_temperature=True,
    filters=False,
    because="its gradient is written out for the softmax over the whole vocabulary",
)
PATHS = {path.name: path for path in (PLAIN, FUSED)}


def one_a_sample(drawn_from: Drawn, samples: int) -> tuple[Distribution, ...]:
    """Spread one distribution over all samples, or check that there is one for each.

    Raises:
        StackError: several, but not as many as samples.
    """
    if isinstance(drawn_from, Distribution):
        return (drawn_from,) * samples
    if len(drawn_from) != samples:
        raise StackError(
            asked="one distribution for all samples, or one for each",
            found=f"{len(drawn_from)} distributions for {samples} samples",
            todo="say of each sample what it was drawn from",
        )
    return tuple(drawn_from)


def _words(drawn_from: Distribution) -> str:
    return (
        f"temperature {drawn_from.divisor:g}, top_p {drawn_from.top_p:g}, top_k {drawn_from.top_k}"
    )


def _require(name: str, value: object, rule: str, *, holds: bool) -> None:
    if not holds:
        raise RecipeError(
            asked=f"sampling with {name}: {rule}",
            found=repr(value),
            todo="correct what the recipe or the caller asks for",
        )
