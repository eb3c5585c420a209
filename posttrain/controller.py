"""The synchronous controller: one optimizer step from rollouts to a proven refit and validation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from posttrain.disk import Lines, writing
from posttrain.policy.advantages import global_advantages
from posttrain.refit.acknowledgement import check_acknowledgements, check_sampled_with
from posttrain.refit.transport import withdraw
from posttrain.rollout.collect import collect
from posttrain.rollout.convert import accuracy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from posttrain.config import Recipe
    from posttrain.data import Row
    from posttrain.generation.group import GenerationGroup
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.policy.group import PolicyGroup
    from posttrain.rollout.collect import Agent
    from posttrain.sample import Sample
    from posttrain.stages import Stages

Metrics = dict[str, float | str]
ADVANTAGES = {"reinforce_plus_plus": global_advantages}


@dataclass(frozen=True)
class Controller:
    """What a step needs, all of it ready, policy and engines holding the same weights.

    Attributes:
        recipe: the recipe.
        policy: the ranks.
        generation: the engines.
        agent: the Gym agent in front of the engines.
        train_rows: what is rolled out and trained on.
        validation_rows: what is rolled out after the refit.
        stages: times and bounds each stage.
        weights: path in shared memory through which the engines get the new weights.
    """

    recipe: Recipe
    policy: PolicyGroup
    generation: GenerationGroup
    agent: Agent
    train_rows: Sequence[Row]
    validation_rows: Sequence[Row]
    stages: Stages
    weights: Path

    def run(self, writer: MetricsWriter, samples_file: Path) -> None:
        """Take every step of the recipe, writing its metrics and samples as soon as it is done.

        Raises:
            StackError: whatever made a step not a proven one; the steps before it are written.
        """
        limits = self.recipe.timeouts
        whole = 2 * limits.train_s + limits.generate_s + limits.refit_s + limits.validate_s
        keeping = partial(writing, "samples", samples_file.parent)
        with keeping():
            lines = Lines(samples_file)
        with lines:
            for step in range(1, self.recipe.run.steps + 1):
                with self.stages.stage("step", whole):
                    metrics, samples = self._step(step)
                with keeping():
                    lines.append(*(json.dumps({"step": step, **asdict(it)}) for it in samples))
                writer.write(step, metrics | self.stages.take_timings())

    def _step(self, step: int) -> tuple[Metrics, list[Sample]]:
        """Roll out, verify, update once, refit, validate; the step is also the weights' version."""
        limits = self.recipe.timeouts
        with self.stages.stage("generation", limits.generate_s):
            samples = collect(
                self.agent,
                self.train_rows,
                self.recipe.rollouts.per_prompt,
                seed=f"{self.recipe.run.seed}/train/{step}",
            )
        metrics = self._train(samples)
        with self.stages.stage("refit", limits.refit_s):
            metrics |= self._refit(step)
        with self.stages.stage("validation", limits.validate_s):
            # The same for each step, so that only the weights make a difference.
            seed = f"{self.recipe.run.seed}/validation"
            answers = collect(self.agent, self.validation_rows, seed=seed)
            metrics["validation/accuracy"] = accuracy(answers)
        return metrics, samples

    def _train(self, samples: list[Sample]) -> Metrics:
        limits, temperature = self.recipe.timeouts, self.recipe.generation.temperature
        rewards = [sample.reward for sample in samples]
        own = self.recipe.advantages
        advantages = ADVANTAGES[own.kind](rewards, own.epsilon)
        metrics = _spread("train/reward", rewards) | _spread("train/advantages", advantages)
        with self.stages.stage("logprobs", limits.train_s):
            served = self.generation.checksums()
            # Colocated on accelerators: one of the two holds the memory. On a CPU there is nothing
            # to hand over, and all four calls return at once.
            self.generation.sleep()
            self.policy.to_device()
            checksum = self.policy.checksum()
            check_sampled_with(served, checksum)
            metrics["policy/checksum_before_step"] = checksum
            metrics |= _by_worker("checksum_before_refit", served)
            old_logprobs = self.policy.logprobs(samples, temperature)
        with self.stages.stage("training", limits.train_s):
            trained = self.policy.train_step(samples, advantages, old_logprobs, temperature)
            metrics |= {f"train/{name}": value for name, value in trained.items()}
        return metrics

    def _refit(self, version: int) -> Metrics:
        """Hand the policy's weights to every engine and prove that it serves exactly those."""
        checksum = self.policy.checksum()
        metrics: Metrics = {"policy/checksum_after_step": checksum}
        names = self.policy.publish_state(self.weights)
        self.policy.to_host()
        self.generation.wake()
        try:
            metrics["refit/bytes"] = self.weights.stat().st_size
            answers = self.generation.refit(self.weights, names, version)
        finally:
            withdraw(self.weights)
        metrics["refit/generation_workers_updated"] = check_acknowledgements(
            answers, self.generation.names, names, checksum, version
        )
        metrics["refit/weight_version"] = version
        return metrics | _by_worker("checksum_after_refit", self.generation.checksums())


def _by_worker(name: str, values: Mapping[str, str]) -> Metrics:
    """Metrics of all workers, which are in the order of their numbers."""
    return {f"generation/{number}/{name}": value for number, value in enumerate(values.values())}


def _spread(name: str, values: Sequence[float]) -> Metrics:
    return {f"{name}/min": min(values), f"{name}/max": max(values), f"{name}/mean": fmean(values)}
