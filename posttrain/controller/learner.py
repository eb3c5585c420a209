"""One optimizer step on samples, and the refit that follows it, each with its proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from posttrain.refit.acknowledgement import check_acknowledgements, check_sampled_with
from posttrain.starting import refit_request
from posttrain.training import score, update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.config import Recipe
    from posttrain.generation.group import GenerationGroup
    from posttrain.policy.group import PolicyGroup
    from posttrain.refit.offer import InFlight
    from posttrain.sample import Sample
    from posttrain.stages import Stages
    from posttrain.training import Metrics


@dataclass(frozen=True)
class Learner:
    """Policy and engines, which hold the same weights before each step.

    Attributes:
        recipe: the recipe.
        policy: the ranks.
        generation: the engines.
        stages: times and bounds each stage.
    """

    recipe: Recipe
    policy: PolicyGroup
    generation: GenerationGroup
    stages: Stages

    def train(
        self, samples: Sequence[Sample], groups: Sequence[int] | None = None, staleness: int = 0
    ) -> Metrics:
        """Take one optimizer step on samples that the engines made.

        Args:
            samples: with the version of the weights that generated each.
            groups: each sample's group, whose rewards are compared; None where every group is a
                row of its own.
            staleness: how many versions a sample may be behind the policy's weights.

        Raises:
            StackError: the engines serve other weights than the policy's, a sample is of a version
                that it should not have, or a number is not finite; no step was taken.
        """
        limits, drawn_from = self.recipe.timeouts, self.recipe.generation.drawn_from
        with self.stages.stage("logprobs", limits.train_s):
            # Engines read their weights back while the ranks compute, where both have their memory.
            served = cache(self.generation.ask_served())
            if self._shares_memory:
                served()
                self.generation.sleep()
                self.policy.to_device()
            checksum = self.policy.checksum_since_offer()
            scores = score(self.policy, self.recipe, samples, drawn_from)
            versions = [sample.weight_version for sample in samples]
            version = check_sampled_with(served(), checksum, versions, staleness)
            metrics: Metrics = {
                "policy/checksum_before_step": checksum,
                "train/weight_version": version,
            }
            checksums = [each.checksum for each in served().values()]
            metrics |= _by_worker("checksum_before_refit", checksums)
        with self.stages.stage("training", limits.train_s):
            metrics |= update(self.policy, self.recipe, samples, scores, drawn_from, groups=groups)
        return metrics

    def refit(self, version: int, in_flight: InFlight = "refuse") -> Metrics:
        """Hand the policy's weights to every engine and prove that it serves exactly those.

        Args:
            version: of the weights: the step that made them.
            in_flight: what becomes of the requests that the engines are at work on.

        Raises:
            StackError: some engine does not provably serve the policy's weights.
        """
        request = refit_request(self.recipe, self.generation.receivers, version, in_flight)
        offer = self.policy.offer_weights(request)
        if self._shares_memory:
            self.policy.to_host()
            self.generation.wake()
        with self.policy.sending():
            answers = self.generation.refit(offer)
        updated = check_acknowledgements(
            answers, self.generation.names, offer.names, offer.checksum, version
        )
        metrics: Metrics = {
            "policy/checksum_after_step": offer.checksum,
            "refit/transport": offer.request.transport,
            "refit/bytes": offer.nbytes,
            "refit/buffers": len(offer.buffers),
            "refit/generation_workers_updated": updated,
            "refit/weight_version": version,
        }
        return metrics | _by_worker("checksum_after_refit", [ack.checksum for ack in answers])

    @property
    def _shares_memory(self) -> bool:
        """Whether one side at a time holds the memory: colocated, and on accelerators.

        On a CPU there is nothing to hand over.
        """
        return self.recipe.generation.colocated and self.recipe.cluster.accelerators > 0


def validates(step: int, steps: int, every: int) -> bool:
    """Whether a step ends with a validation: the first, the last, and every ``every``-th do."""
    return step in {1, steps} or step % every == 0


def training_seed(seed: int, batch: int) -> str:
    """What tells the rollouts of a batch of prompts, counted from 1, from all others."""
    return f"{seed}/train/{batch}"


def validation_seed(seed: int) -> str:
    """The same for validation: one for all steps, so that only the weights make a difference."""
    return f"{seed}/validation"


def _by_worker(name: str, values: Sequence[str]) -> Metrics:
    """Metrics of all workers, which are in the order of their numbers."""
    return {f"generation/{number}/{name}": value for number, value in enumerate(values)}
