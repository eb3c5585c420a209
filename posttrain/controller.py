"""The synchronous controller: one optimizer step from rollouts to a proven refit and validation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from posttrain.disk import Lines, writing
from posttrain.metrics.progress import progress
from posttrain.refit.acknowledgement import check_acknowledgements, check_sampled_with
from posttrain.rollout.collect import collect
from posttrain.rollout.convert import accuracy
from posttrain.starting import refit_request
from posttrain.training import score, update

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.checkpoint.keeper import Checkpoints
    from posttrain.config import Recipe
    from posttrain.data import Row
    from posttrain.dataset import Prompts
    from posttrain.generation.group import GenerationGroup
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.policy.group import PolicyGroup
    from posttrain.rollout.collect import Agent
    from posttrain.sample import Sample
    from posttrain.stages import Stages
    from posttrain.training import Metrics


@dataclass(frozen=True)
class Controller:
    """What a step needs, all of it ready, policy and engines holding the same weights.

    Attributes:
        recipe: the recipe.
        policy: the ranks.
        generation: the engines.
        agent: the Gym agent in front of the engines.
        prompts: what is rolled out and trained on, batch by batch.
        validation_rows: what is rolled out after the refit.
        stages: times and bounds each stage.
        checkpoints: where the run begins, and what it leaves to go on from.
    """

    recipe: Recipe
    policy: PolicyGroup
    generation: GenerationGroup
    agent: Agent
    prompts: Prompts
    validation_rows: Sequence[Row]
    stages: Stages
    checkpoints: Checkpoints

    def run(self, writer: MetricsWriter, samples_file: Path) -> None:
        """Take every step of the recipe, writing its metrics and samples as soon as it is done.

        Raises:
            StackError: whatever made a step not a proven one; the steps before it are written.
        """
        limits = self.recipe.timeouts
        whole = 2 * limits.train_s + limits.generate_s + limits.refit_s + limits.validate_s
        keeping = partial(writing, "samples", samples_file.parent)
        with keeping():
            lines = Lines(samples_file, grow=self.checkpoints.start.continues)
        with lines:
            resumed = self._resume()
            for step in range(self.checkpoints.start.step + 1, self.recipe.run.steps + 1):
                with self.stages.stage("step", whole):
                    metrics, samples = self._step(step)
                with keeping():
                    lines.append(*(json.dumps({"step": step, **asdict(it)}) for it in samples))
                metrics = {**resumed, **metrics, **self.stages.take_timings()}
                writer.write(step, metrics)
                self.stages.say(progress(step, self.recipe.run.steps, metrics))
                resumed = {}
                if self.checkpoints.due(step):
                    with self.stages.stage("checkpoint", limits.checkpoint_s):
                        weights = str(metrics["policy/checksum_after_step"])
                        self.checkpoints.save(step, weights, self.policy, self.prompts)

    def _resume(self) -> Metrics:
        """Have ranks, dataset and engines where the run goes on, if it does."""
        start, limits = self.checkpoints.start, self.recipe.timeouts
        if start.manifest is None:
            return {}
        with self.stages.stage("resume", limits.checkpoint_s + limits.refit_s):
            self.checkpoints.restore(self.policy, self.prompts)
            self.refit(start.step)
        return {"checkpoint/resumed_step": start.step, "checkpoint/damaged": len(start.damaged)}

    def _step(self, step: int) -> tuple[Metrics, list[Sample]]:
        """Roll out, verify, update once, refit, validate; the step is also the weights' version."""
        limits = self.recipe.timeouts
        with self.stages.stage("generation", limits.generate_s):
            # What validation left there would decide how the samples are computed, to the last bit.
            self.generation.reset_prefix_caches()
            samples = collect(
                self.agent,
                self.prompts.take(),
                self.recipe.rollouts.per_prompt,
                seed=f"{self.recipe.run.seed}/train/{step}",
            )
        # By the last refit; training checks that no other has come between.
        samples = [replace(sample, weight_version=step - 1) for sample in samples]
        metrics = self.train(samples)
        metrics["data/passes"] = self.prompts.passes
        with self.stages.stage("refit", limits.refit_s):
            metrics |= self.refit(step)
        if validates(step, self.recipe.run.steps, self.recipe.data.validate_every):
            with self.stages.stage("validation", limits.validate_s):
                # The same for each step, so that only the weights make a difference.
                seed = f"{self.recipe.run.seed}/validation"
                answers = collect(self.agent, self.validation_rows, seed=seed)
                metrics["validation/accuracy"] = accuracy(answers)
        return metrics, samples

    def train(self, samples: list[Sample]) -> Metrics:
        """Take one optimizer step on samples that the engines made with the policy's weights."""
        limits, drawn_from = self.recipe.timeouts, self.recipe.generation.drawn_from
        with self.stages.stage("logprobs", limits.train_s):
            served = self.generation.served()
            if self._shares_memory:
                self.generation.sleep()
                self.policy.to_device()
            checksum = self.policy.checksum_since_offer()
            versions = [sample.weight_version for sample in samples]
            metrics: Metrics = {
                "policy/checksum_before_step": checksum,
                "train/weight_version": check_sampled_with(served, checksum, versions),
            }
            checksums = [each.checksum for each in served.values()]
            metrics |= _by_worker("checksum_before_refit", checksums)
            scores = score(self.policy, self.recipe, samples, drawn_from)
        with self.stages.stage("training", limits.train_s):
            metrics |= update(self.policy, self.recipe, samples, scores, drawn_from)
        return metrics

    def refit(self, version: int) -> Metrics:
        """Hand the policy's weights to every engine and prove that it serves exactly those."""
        offer = self.policy.offer_weights(
            refit_request(self.recipe, self.generation.receivers, version)
        )
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


def _by_worker(name: str, values: Sequence[str]) -> Metrics:
    """Metrics of all workers, which are in the order of their numbers."""
    return {f"generation/{number}/{name}": value for number, value in enumerate(values)}
