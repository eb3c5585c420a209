"""Every metric that the stack writes: its name, unit, meaning and formula.

``docs/metrics.md`` is :func:`page`; write it again with ``python -m posttrain.metrics``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from posttrain.errors import StackError
from posttrain.nearest import nearest

TEXT = "text"
SECONDS = "seconds"

_HEAD = """# Metrics

This page is what `python -m posttrain.metrics` prints; a test fails when it is not.

A run writes `metrics.jsonl` in its folder: one flat JSON object a step, `step` (from 1) first. A
number that is not finite stands there as `NaN`, `Infinity` or `-Infinity`, so that a contract sees
it. The numbers are in TensorBoard's event files under `tensorboard/` too; texts are in the JSON
lines only.

`<n>` is the number of a generation worker, from 0. Starting is timed in the first step's line.

| name | unit | meaning | formula |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: its name; ``<n>`` stands for a number from 0.
        unit: ``text`` marks a metric that is no number.
        meaning: what it says.
        formula: how it is computed; empty where the meaning says it all.
    """

    name: str
    unit: str
    meaning: str
    formula: str = ""

    def matches(self, name: str) -> bool:
        """Whether ``name`` is this metric."""
        pattern = re.escape(self.name).replace("<n>", "(0|[1-9][0-9]*)")
        return re.fullmatch(pattern, name) is not None


def _three(name: str, unit: str, meaning: str, formula: str = "") -> list[Metric]:
    return [
        Metric(f"{name}/min", unit, f"smallest {meaning}", formula),
        Metric(f"{name}/max", unit, f"largest {meaning}", formula),
        Metric(f"{name}/mean", unit, f"mean {meaning}", formula),
    ]


_ADVANTAGE = "(reward - mean of all rewards) / (population deviation of all rewards + epsilon)"
_CHECKSUM = "SHA-256 over sorted names, dtypes, shapes and bytes of the full tensors"

STAGES = {
    "cluster": "start of the Ray cluster",
    "start_policy": "start of the policy ranks",
    "start_generation": "start of the generation workers",
    "start_gym": "start of the Gym servers",
    "start": "start of policy, generation and Gym, which overlap",
    "generation": "rollouts of the step, verification included",
    "logprobs": "weights of both sides compared, log-probabilities recomputed by the policy",
    "training": "loss, gradients and optimizer step",
    "refit": "weights sent, loaded and acknowledged",
    "validation": "validation after the refit",
    "step": "one whole step, from rollouts to validation",
}

METRICS: tuple[Metric, ...] = (
    *_three("train/reward", "reward", "reward of the step's samples"),
    *_three("train/advantages", "deviations", "advantage of the step's samples", _ADVANTAGE),
    Metric(
        "train/loss",
        "1",
        "clipped policy loss before the optimizer step",
        "-sum over completion tokens of min(r A, clip(r, 1 - low, 1 + high) A) / tokens,"
        " r = exp(logprob - old logprob)",
    ),
    Metric(
        "train/grad_norm",
        "1",
        "global L2 norm of the gradient, before it is clipped",
        "sqrt(sum over all parameters of g^2)",
    ),
    Metric("train/lr", "1", "learning rate of the optimizer step"),
    Metric(
        "train/token_mult_prob_error",
        "ratio",
        "how far generation's token probabilities are from the policy's; 1 is equality",
        "mean over completion tokens of exp(abs(policy logprob - generation logprob))",
    ),
    Metric(
        "train/clip_fraction",
        "fraction",
        "completion tokens whose objective the clip holds",
        "count(clip(r, 1 - low, 1 + high) A < r A) / tokens",
    ),
    Metric("train/optimizer_steps", "count", "optimizer steps taken in this step"),
    Metric("train/completion_tokens", "tokens", "completion tokens that were trained on"),
    Metric(
        "refit/generation_workers_updated",
        "count",
        "workers that acknowledged the new weights with the right names and checksum",
    ),
    Metric("refit/weight_version", "count", "version that every worker serves now: the step"),
    Metric("refit/bytes", "bytes", "weights sent to one worker"),
    Metric("policy/checksum_before_step", TEXT, "weights before the optimizer step", _CHECKSUM),
    Metric("policy/checksum_after_step", TEXT, "weights after the optimizer step", _CHECKSUM),
    Metric(
        "generation/<n>/checksum_before_refit",
        TEXT,
        "live weights of worker n that sampled the step, read back before it is trained on",
        _CHECKSUM,
    ),
    Metric(
        "generation/<n>/checksum_after_refit",
        TEXT,
        "live weights of worker n, read back after the refit",
        _CHECKSUM,
    ),
    Metric(
        "validation/accuracy",
        "fraction",
        "share of the validation rows whose answer the verifier accepts, after the refit",
        "count(reward = 1) / rows",
    ),
    *(Metric(f"timing/{stage}", SECONDS, meaning) for stage, meaning in STAGES.items()),
)


def find(name: str) -> Metric:
    """The declared metric that ``name`` is.

    Raises:
        StackError: when no declared metric has this name, with the nearest one.
    """
    for metric in METRICS:
        if metric.matches(name):
            return metric
    raise StackError(
        f"write the metric {name!r}",
        "no metric of this name is declared",
        f"{nearest(name, [metric.name for metric in METRICS])} (posttrain/metrics/table.py)",
    )


def page() -> str:
    """The Markdown page that documents the metrics."""
    rows = [f"| `{m.name}` | {m.unit} | {m.meaning} | {m.formula} |" for m in METRICS]
    return _HEAD + "\n".join(rows) + "\n"
