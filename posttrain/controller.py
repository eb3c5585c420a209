"""The synchronous controller: one optimizer step from rollouts to a proven refit and validation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from posttrain.policy.advantages import global_advantages
from posttrain.refit.acknowledgement import check_acknowledgements
from posttrain.refit.transport import withdraw
from posttrain.rollout.collect import collect
from posttrain.rollout.convert import accuracy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.config import Recipe
    from posttrain.data import Row
    from posttrain.generation.group import GenerationGroup
    from posttrain.metrics.writer import MetricsWriter
    from posttrain.policy.group import PolicyGroup
    from posttrain.rollout.collect import Agent
    from posttrain.sample import Sample
    from posttrain.stages import Stages


@dataclass(frozen=True)
class Parts:
    """What is up and running when a step begins."""

    policy: PolicyGroup
    generation: GenerationGroup
    agent: Agent


def take_step(  # noqa: PLR0913
    step: int,
    recipe: Recipe,
    parts: Parts,
    train_rows: Sequence[Row],
    validation_rows: Sequence[Row],
    stages: Stages,
    weights: Path,
) -> tuple[dict[str, float | str], list[Sample]]:
    """Roll out, verify, update once, refit, validate.

    Args:
        step: the step's number, from 1; also the version of the weights it makes.
        recipe: the recipe.
        parts: policy, engines and agent, all ready and serving the same weights.
        train_rows: what is rolled out and trained on.
        validation_rows: what is rolled out after the refit.
        stages: times and bounds each stage.
        weights: path in shared memory through which the engines get the new weights.

    Returns:
        The step's metrics but for its timings, and its samples.

    Raises:
        StackError: whatever made the step not a proven one.
    """
    limits, temperature = recipe.timeouts, recipe.generation.temperature
    metrics: dict[str, float | str] = {}
    with stages.stage("generation", limits.generate_s):
        samples = collect(parts.agent, train_rows, recipe.rollouts.per_prompt)
    rewards = [sample.reward for sample in samples]
    advantages = global_advantages(rewards)
    metrics |= _spread("train/reward", rewards) | _spread("train/advantages", advantages)

    with stages.stage("logprobs", limits.train_s):
        metrics["policy/checksum_before_step"] = parts.policy.checksum()
        old_logprobs = parts.policy.logprobs(samples, temperature)
    with stages.stage("training", limits.train_s):
        trained = parts.policy.train_step(samples, advantages, old_logprobs, temperature)
    metrics |= {f"train/{name}": value for name, value in trained.items()}

    with stages.stage("refit", limits.refit_s):
        after = parts.policy.checksum()
        metrics["policy/checksum_after_step"] = after
        before = parts.generation.checksums()
        names = parts.policy.publish_state(weights)
        try:
            metrics["refit/bytes"] = weights.stat().st_size
            answers = parts.generation.refit(weights, names, step)
        finally:
            withdraw(weights)
        updated = check_acknowledgements(answers, parts.generation.names, names, after)
        metrics["refit/generation_workers_updated"] = updated
        now = parts.generation.checksums()
        for number, name in enumerate(parts.generation.names):
            metrics[f"generation/{number}/checksum_before_refit"] = before[name]
            metrics[f"generation/{number}/checksum_after_refit"] = now[name]

    with stages.stage("validation", limits.validate_s):
        metrics["validation/accuracy"] = accuracy(collect(parts.agent, validation_rows))
    return metrics, samples


def run_steps(  # noqa: PLR0913
    recipe: Recipe,
    parts: Parts,
    train_rows: Sequence[Row],
    validation_rows: Sequence[Row],
    stages: Stages,
    weights: Path,
    writer: MetricsWriter,
    samples_file: Path,
) -> None:
    """Take every step of the recipe, writing its metrics and samples as soon as it is done."""
    limits = recipe.timeouts
    whole = 2 * limits.train_s + limits.generate_s + limits.refit_s + limits.validate_s
    with samples_file.open("x", encoding="utf-8") as file:
        for step in range(1, recipe.run.steps + 1):
            with stages.stage("step", whole):
                metrics, samples = take_step(
                    step, recipe, parts, train_rows, validation_rows, stages, weights
                )
            for sample in samples:
                file.write(json.dumps({"step": step, **asdict(sample)}) + "\n")
            file.flush()
            writer.write(step, metrics | stages.take_timings())


def _spread(name: str, values: Sequence[float]) -> dict[str, float | str]:
    return {f"{name}/min": min(values), f"{name}/max": max(values), f"{name}/mean": fmean(values)}
