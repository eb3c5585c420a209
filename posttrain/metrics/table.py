"""Every metric that the stack writes: its name, unit, meaning and formula.

``docs/metrics.md`` is :func:`page`; write it again with ``python -m posttrain.metrics``.
"""

from __future__ import annotations

from functools import cache

from posttrain.errors import StackError
from posttrain.metrics.acceptance import ACCEPTANCE
from posttrain.metrics.capture import CAPTURE
from posttrain.metrics.controlling import CONTROLLER
from posttrain.metrics.metric import SECONDS, TEXT, Metric, three
from posttrain.nearest import nearest

_HEAD = """# Metrics

This page is what `python -m posttrain.metrics` prints; a test fails when it is not.

A run writes `metrics.jsonl` in its folder: one flat JSON object a step, `step` (from 1) first. A
number that is not finite stands there as `NaN`, `Infinity` or `-Infinity`, so that a contract sees
it. The numbers are in TensorBoard's event files under `tensorboard/` too; texts are in the JSON
lines only.

`<n>` is the number of a generation worker, from 0, `<verifier>` the name of a verifier, `<cause>`
one of docs/capture.md. Starting is timed in the first step's line. `rollout/` and `verifier/` are
what `posttrain.accept` and `posttrain.verify` write, whose steps are rounds and which write no
events (docs/jobs.md).

| name | unit | meaning | formula |
|---|---|---|---|
"""

_ADVANTAGE = "by `advantages.kind`: docs/advantages.md"
_CHECKSUM = "SHA-256 over sorted names, dtypes, shapes and SHA-256 of each full tensor's bytes"

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
    "verification": "all verdicts of a round",
    "step": "one whole step, from rollouts to validation",
    "checkpoint": "the checkpoint of the step before, written",
    "resume": "checkpoint read, its weights sent to the engines",
}

METRICS: tuple[Metric, ...] = (
    *three("train/reward", "reward", "reward of the step's samples"),
    *three("train/advantages", "deviations", "advantage of a trained token", _ADVANTAGE),
    Metric("train/groups", "count", "prompts of which at least one rollout was trained on"),
    Metric(
        "train/groups_without_advantage",
        "count",
        "prompts of which no trained token had an advantage, so that nothing was learnt from them",
        "groups whose advantages are all exactly 0",
    ),
    Metric(
        "train/reference_kl",
        "nats per token",
        "divergence of the policy from the start weights, before the optimizer step; written where"
        " `advantages.kl_coefficient` is above 0",
        "mean over trained tokens of the estimate by `advantages.kl_estimator`",
    ),
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
        "how far generation's token probabilities are from the policy's; 1 is equality; masked"
        " sequences count",
        "mean over completion tokens of exp(abs(policy logprob - generation logprob))",
    ),
    Metric(
        "train/token_mult_prob_error_max",
        "ratio",
        "the same of the worst token",
        "max over completion tokens of exp(abs(policy logprob - generation logprob))",
    ),
    Metric(
        "train/token_mult_prob_error_trained",
        "ratio",
        "the same mean without masked sequences",
        "mean over trained tokens of exp(abs(policy logprob - generation logprob))",
    ),
    Metric(
        "train/sequence_mult_prob_error_max",
        "ratio",
        "the same of the worst sequence, which `parity.mask_above` bounds",
        "max over sequences of the mean over its tokens",
    ),
    Metric(
        "train/generation_kl_k1",
        "nats per token",
        "divergence of generation from the policy, of which single tokens may be negative",
        "mean over completion tokens of d, d = generation logprob - policy logprob",
    ),
    Metric(
        "train/generation_kl_k3",
        "nats per token",
        "the same divergence, estimated so that no token is negative",
        "mean over completion tokens of exp(-d) - 1 + d",
    ),
    Metric(
        "train/masked_sequences",
        "count",
        "sequences that were left out of the step, because their error is above"
        " `parity.mask_above`",
    ),
    Metric("train/masked_tokens", "tokens", "completion tokens of these sequences"),
    Metric(
        "train/masked_rows", TEXT, "dataset rows of these sequences, each as often as it was masked"
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
        "train/tokens_outside_filters",
        "tokens",
        "trained completion tokens that the policy's own top-k and top-p would not have kept; they"
        " are scored all the same (docs/sampling.md)",
    ),
    Metric(
        "refit/generation_workers_updated",
        "count",
        "workers that acknowledged the new weights with the right names and checksum",
    ),
    Metric("refit/weight_version", "count", "version that every worker serves now: the step"),
    Metric("refit/transport", TEXT, "how the weights were sent (docs/refit.md)"),
    Metric("refit/bytes", "bytes", "weights sent to one worker"),
    Metric("refit/buffers", "count", "buffers in which they were sent"),
    Metric(
        "train/weight_version",
        "count",
        "version of the weights that generated the samples trained on, the same for each of them",
    ),
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
    *ACCEPTANCE,
    *CONTROLLER,
    *CAPTURE,
    *(Metric(f"timing/{stage}", SECONDS, meaning) for stage, meaning in STAGES.items()),
)


@cache
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
