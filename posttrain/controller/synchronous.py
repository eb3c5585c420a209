"""The synchronous controller: one optimizer step from rollouts to a proven refit and validation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from posttrain.controller.learner import training_seed, validates, validation_seed
from posttrain.controller.record import recording
from posttrain.rollout.collect import collect
from posttrain.rollout.convert import accuracy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.checkpoint.keeper import Checkpoints
    from posttrain.controller.learner import Learner
    from posttrain.data import Row
    from posttrain.dataset import Prompts
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.rollout.collect import Agent
    from posttrain.sample import Sample
    from posttrain.training import Metrics


@dataclass(frozen=True)
class Controller:
    """What a step needs, all of it ready, policy and engines holding the same weights.

    Attributes:
        learner: takes the optimizer steps and refits the engines.
        agent: the Gym agent in front of the engines.
        prompts: what is rolled out and trained on, batch by batch.
        validation_rows: what is rolled out after the refit.
        checkpoints: where the run begins, and what it leaves to go on from.
    """

    learner: Learner
    agent: Agent
    prompts: Prompts
    validation_rows: Sequence[Row]
    checkpoints: Checkpoints

    def run(self, writer: MetricsWriter, samples_file: Path) -> None:
        """Take every step of the recipe, writing its metrics and samples as soon as it is done.

        Raises:
            StackError: whatever made a step not a proven one; the steps before it are written.
        """
        recipe, stages, start = self.learner.recipe, self.learner.stages, self.checkpoints.start
        limits, steps = recipe.timeouts, recipe.run.steps
        whole = 2 * limits.train_s + limits.generate_s + limits.refit_s + limits.validate_s
        with recording(writer, samples_file, stages, steps, grow=start.continues) as record:
            resumed = self._resume()
            for step in range(start.step + 1, steps + 1):
                with stages.stage("step", whole):
                    metrics, samples = self._step(step)
                record.write(step, resumed | metrics, [asdict(sample) for sample in samples])
                resumed = {}
                if self.checkpoints.due(step):
                    with stages.stage("checkpoint", limits.checkpoint_s):
                        weights = str(metrics["policy/checksum_after_step"])
                        self.checkpoints.save(step, weights, self.learner.policy, self.prompts)

    def _resume(self) -> Metrics:
        """Have ranks, dataset and engines where the run goes on, if it does."""
        start, limits = self.checkpoints.start, self.learner.recipe.timeouts
        if start.manifest is None:
            return {}
        with self.learner.stages.stage("resume", limits.checkpoint_s + limits.refit_s):
            self.checkpoints.restore(self.learner.policy, self.prompts)
            self.learner.refit(start.step)
        return {"checkpoint/resumed_step": start.step, "checkpoint/damaged": len(start.damaged)}

    def _step(self, step: int) -> tuple[Metrics, list[Sample]]:
        """Roll out, verify, update once, refit, validate; the step is also the weights' version."""
        recipe, stages = self.learner.recipe, self.learner.stages
        limits = recipe.timeouts
        with stages.stage("generation", limits.generate_s):
            # What validation left there would decide how the samples are computed, to the last bit.
            self.learner.generation.reset_prefix_caches()
            samples = collect(
                self.agent,
                self.prompts.take(),
                recipe.rollouts.per_prompt,
                seed=training_seed(recipe.run.seed, step),
            )
        # By the last refit; training checks that no other has come between.
        samples = [replace(sample, weight_version=step - 1) for sample in samples]
        metrics = self.learner.train(samples)
        metrics["data/passes"] = self.prompts.passes
        with stages.stage("refit", limits.refit_s):
            metrics |= self.learner.refit(step)
        if validates(step, recipe.run.steps, recipe.data.validate_every):
            with stages.stage("validation", limits.validate_s):
                answers = collect(
                    self.agent, self.validation_rows, seed=validation_seed(recipe.run.seed)
                )
                metrics["validation/accuracy"] = accuracy(answers)
        return metrics, samples
