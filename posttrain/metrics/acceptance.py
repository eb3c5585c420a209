"""Metrics of what is accepted without training: rollouts and verifiers."""

from __future__ import annotations

from posttrain.metrics.metric import SECONDS, Metric, three

ACCEPTANCE: tuple[Metric, ...] = (
    Metric("rollout/rollouts", "count", "rollouts of the round"),
    Metric("rollout/turns", "count", "calls of the model in them"),
    Metric("rollout/continued_turns", "count", "turns that another turn went before"),
    Metric("rollout/turns_ended", "count", "turns that the model ended by itself"),
    Metric("rollout/turns_cut", "count", "turns that `generation.max_new_tokens` ended"),
    Metric("rollout/prompt_tokens", "tokens", "prompt tokens of all turns"),
    Metric("rollout/completion_tokens", "tokens", "completion tokens of all turns"),
    *three("rollout/reward", "reward", "reward of a rollout"),
    *three("rollout/logprob", "nats", "log-probability of a completion token"),
    *three("rollout/seconds", SECONDS, "time of a rollout, verification included"),
    Metric(
        "rollout/tokens_per_second",
        "tokens per second",
        "speed of the round",
        "completion tokens / timing/generation",
    ),
    Metric(
        "rollout/prompt_faults",
        "count",
        "rollouts whose first prompt is not what the chat template makes of the row",
    ),
    Metric("rollout/token_faults", "count", "token ids beyond the vocabulary, once a sequence"),
    Metric("rollout/logprob_faults", "count", "turns with a log-probability above 0"),
    Metric(
        "rollout/stop_faults",
        "count",
        "turns that stopped without a reason, went on after their end or beyond the limit, and"
        " rollouts of which Gym says otherwise",
    ),
    Metric(
        "rollout/contiguity_faults",
        "count",
        "turns whose prompt does not begin with the prompt and completion of the turn before",
    ),
    Metric("rollout/expectation_faults", "count", "stops or rewards that the row does not expect"),
    Metric(
        "rollout/repetition_faults",
        "count",
        "rollouts with other tokens than the first round's with the same seed",
    ),
    Metric(
        "rollout/repeat_logprob_difference",
        "nats",
        "how far a log-probability is from the first round's, from the second round on",
        "max over completion tokens of abs(logprob - first logprob)",
    ),
    Metric("verifier/<verifier>/rows", "count", "answers that the verifier was asked about"),
    Metric("verifier/<verifier>/accepted", "count", "answers with the reward 1"),
    Metric("verifier/<verifier>/rejected", "count", "answers with the reward 0"),
    Metric("verifier/<verifier>/partly", "count", "answers with another reward"),
    Metric(
        "verifier/<verifier>/mismatches",
        "count",
        "verdicts of which the reward, or another field, is not the expected one",
    ),
    Metric(
        "verifier/<verifier>/failures",
        "count",
        "answers without a verdict: an error, none in time, no finite reward, or one taken back",
        "rows - accepted - rejected - partly",
    ),
    Metric("verifier/<verifier>/seconds_max", SECONDS, "longest time that one verdict took"),
    Metric("data/passes", "passes", "passes over the training rows so far", "rows taken / rows"),
    Metric(
        "checkpoint/resumed_step",
        "count",
        "step of the checkpoint that the run went on from; in its first line after that",
    ),
    Metric(
        "checkpoint/damaged",
        "count",
        "newer checkpoints that were damaged and passed over; in the same line",
    ),
)
