"""Metrics of token capture, written where a recipe turns it on: docs/capture.md."""

from __future__ import annotations

from posttrain.metrics.metric import SECONDS, TEXT, Metric

_LATENCY = "the scored answer's arrival to its verified row"

CAPTURE: tuple[Metric, ...] = (
    Metric("capture/rows", "count", "rollouts of the step that became verified rows"),
    Metric(
        "capture/placeholders",
        "count",
        "rollouts of the step that did not, and of which nothing is trained",
    ),
    Metric("capture/placeholders/<cause>", "count", "those whose first cause is this one"),
    Metric(
        "capture/poisoned/<cause>",
        "count",
        "those whose first cause the gate's ledger had, call by call, when the rollout ended",
    ),
    Metric(
        "capture/continuations",
        "count",
        "calls of the model that continued an earlier one of their rollout, or had to: all but"
        " roots; of calls that failed or were lost, all but the rollout's first",
    ),
    Metric(
        "capture/token_in_rate",
        "fraction",
        "continuations whose prompt provably began with the exact tokens of the call before; not"
        " written where there is no continuation",
        "committed continuations / continuations",
    ),
    Metric(
        "capture/staged_bytes",
        "bytes",
        "token ids, masks and log-probabilities that the engines staged for the step's rows, each"
        " token once however many turns follow",
        "16 a token",
    ),
    Metric(
        "capture/seal_to_row_seconds/p50",
        SECONDS,
        f"median time from {_LATENCY}",
        "smallest that 50 % of the rows do not exceed",
    ),
    Metric(
        "capture/seal_to_row_seconds/p99",
        SECONDS,
        f"time from {_LATENCY} that 99 % of the rows do not exceed",
    ),
    Metric("capture/seal_to_row_seconds/max", SECONDS, f"longest time from {_LATENCY}"),
    Metric(
        "agreement/rows",
        "count",
        "rollouts of the step that two runs are compared by, of which"
        " one captures tokens (`posttrain.capture.agreement`)",
    ),
    Metric(
        "agreement/differences",
        "count",
        "parts of rollouts that are not equal in both: tokens, insertions, rewards, versions",
    ),
    Metric("agreement/differing", TEXT, "names of those parts"),
    Metric(
        "agreement/logprob_difference",
        "nats",
        "largest distance of a token's log-probabilities, where the tokens are equal",
        "NaN where none are",
    ),
)
