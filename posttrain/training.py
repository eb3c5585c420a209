"""What a step makes of its samples: parity, masking, advantages and one optimizer step.

docs/parity.md and docs/advantages.md define the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

import numpy as np

from posttrain.advantages import Rollout, advantages, by_group
from posttrain.errors import StackError
from posttrain.kl import estimates
from posttrain.policy.parity import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.config import Recipe
    from posttrain.policy.parity import Parity
    from posttrain.sample import Sample
    from posttrain.sampling import Distribution

LogProbs = list[list[float]]
Metrics = dict[str, float | str]


class Policy(Protocol):
    """What a step needs of the policy's ranks: see `posttrain.policy.group.PolicyGroup`."""

    def logprobs(self, samples: Sequence[Sample], drawn_from: Distribution) -> LogProbs:
        """Recompute the completion tokens' log-probabilities."""

    def reference_logprobs(self, samples: Sequence[Sample], drawn_from: Distribution) -> LogProbs:
        """The same by the frozen reference."""

    def train_step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Sequence[float]],
        old_logprobs: Sequence[Sequence[float]],
        drawn_from: Distribution,
    ) -> dict[str, float]:
        """Take exactly one optimizer step."""


@dataclass(frozen=True)
class Scores:
    """What the policy says of a step's completion tokens before its update, one list a sample.

    Attributes:
        policy: its log-probabilities.
        kl: its divergence from the frozen reference, one estimate a token, in nats; None where the
            recipe keeps no reference.
    """

    policy: LogProbs
    kl: LogProbs | None = None


def score(
    policy: Policy, recipe: Recipe, samples: Sequence[Sample], drawn_from: Distribution
) -> Scores:
    """Recompute what the update needs.

    Raises:
        StackError: a number is not finite. No threshold masks such a sequence: it says that a
            side is broken, not that the two differ.
    """
    _check(samples, [sample.logprobs for sample in samples], "log-probabilities by generation")
    own = policy.logprobs(samples, drawn_from)
    _check(samples, own, "log-probabilities by the policy")
    estimator = recipe.advantages.kl_estimator
    if estimator is None:
        return Scores(own)
    reference = policy.reference_logprobs(samples, drawn_from)
    _check(samples, reference, "log-probabilities by the reference")
    pairs = zip(own, reference, strict=True)
    kl = [estimates(estimator, policy_row, row).tolist() for policy_row, row in pairs]
    _check(samples, kl, f"divergences by {estimator}")
    return Scores(own, kl)


def update(  # noqa: PLR0913 - what a step is made of
    policy: Policy,
    recipe: Recipe,
    samples: Sequence[Sample],
    scores: Scores,
    drawn_from: Distribution,
    *,
    groups: Sequence[int] | None = None,
) -> Metrics:
    """Leave out the sequences beyond `parity.mask_above` and take one step on the others.

    What is left out is in no part of the update: neither in the statistics of the advantages, nor
    in the loss or the number of tokens that it is divided by. Parity and rewards are those of all
    samples.

    Args:
        policy: the ranks.
        recipe: the recipe.
        samples: all samples of the step.
        scores: of these samples.
        drawn_from: what their completion tokens were drawn from.
        groups: each sample's group, whose rewards are compared; None where a step has no row
            twice, so that its row says it.

    Returns:
        The step's metrics `train/*`.

    Raises:
        StackError: no sequence is left; no step was taken.
    """
    parity = measure([sample.logprobs for sample in samples], scores.policy)
    masked = _masked(parity, recipe.parity.mask_above, samples)
    kept = [place for place in range(len(samples)) if place not in masked]
    kl = scores.kl or [[]] * len(samples)
    of = [sample.row for sample in samples] if groups is None else groups
    rollouts = [_rollout(samples[place], of[place], kl[place]) for place in kept]
    weights = advantages(recipe.advantages, rollouts)
    chosen = [samples[place] for place in kept]
    old_logprobs = [scores.policy[place] for place in kept]
    trained = policy.train_step(chosen, weights, old_logprobs, drawn_from)
    own = measure([sample.logprobs for sample in chosen], old_logprobs) if masked else parity
    return (
        {f"train/{name}": value for name, value in (trained | parity.metrics()).items()}
        | {"train/token_mult_prob_error_trained": own.mean}
        | _spread("train/reward", [sample.reward for sample in samples])
        | _objective(rollouts, weights)
        | {
            "train/masked_sequences": len(masked),
            "train/masked_tokens": sum(len(samples[place].completion_ids) for place in masked),
            "train/masked_rows": " ".join(str(samples[place].row) for place in masked),
        }
    )


def _masked(parity: Parity, limit: float | None, samples: Sequence[Sample]) -> tuple[int, ...]:
    masked = parity.beyond(limit)
    if len(masked) == len(samples):
        raise StackError(
            asked=f"a step on sequences whose mean error is at most parity.mask_above {limit}",
            found=f"all {len(samples)} beyond it, from {min(parity.sequences):.9g} to"
            f" {max(parity.sequences):.9g}; no step was taken",
            todo="find out why generation and policy disagree (docs/parity.md); do not raise the"
            " threshold before",
        )
    return masked


def _rollout(sample: Sample, group: int, kl: Sequence[float]) -> Rollout:
    return Rollout(group, sample.reward, len(sample.completion_ids), tuple(kl))


def _objective(rollouts: Sequence[Rollout], weights: Sequence[Sequence[float]]) -> Metrics:
    groups = by_group(rollouts).values()
    silent = [not any(any(weights[place]) for place in places) for places in groups]
    metrics = _spread("train/advantages", list(chain.from_iterable(weights)))
    metrics |= {"train/groups": len(groups), "train/groups_without_advantage": sum(silent)}
    if kl := list(chain.from_iterable(rollout.kl for rollout in rollouts)):
        metrics["train/reference_kl"] = fmean(kl)
    return metrics


def _check(samples: Sequence[Sample], numbers: Sequence[Sequence[float]], what: str) -> None:
    if np.isfinite(np.fromiter(chain.from_iterable(numbers), np.float64)).all():
        return
    for sample, row in zip(samples, numbers, strict=True):
        values = np.asarray(row, dtype=np.float64)
        (wrong,) = np.nonzero(~np.isfinite(values))
        if wrong.size:
            raise StackError(
                asked=f"{what} that are finite",
                found=f"{values[wrong[0]]} at completion token {wrong[0]} of row {sample.row}; no"
                " step was taken",
                todo="look at the weights that gave it, and at this row's tokens",
            )


def _spread(name: str, values: Sequence[float]) -> Metrics:
    return {f"{name}/min": min(values), f"{name}/max": max(values), f"{name}/mean": fmean(values)}
