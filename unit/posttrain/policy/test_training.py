"""What a step makes of its samples, with real ranks: masking, advantages, divergence."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.config import load_recipe
from posttrain.errors import StackError
from posttrain.sampling import Distribution
from posttrain.training import LogProbs, Scores, score, update

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from posttrain.config import Recipe
    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample

OWN = Distribution()


class Policy:
    """Two real ranks, each call in a session of its own from the start weights."""

    def __init__(self, ranks: Any, options: PolicyOptions) -> None:
        self._ranks = ranks
        self._options = dataclasses.replace(options, reference=True)
        self.steps = 0

    def _run(self, *call: Any) -> list[Any]:
        results = [rank[0] for rank in self._ranks.run(self._options, call)]
        for result in results:
            if isinstance(result, StackError):
                raise result
        return results

    def logprobs(self, samples: Sequence[Sample], drawn_from: Distribution) -> LogProbs:
        return [row for part in self._run("logprobs", samples, drawn_from) for row in part]

    def reference_logprobs(self, samples: Sequence[Sample], drawn_from: Distribution) -> LogProbs:
        parts = self._run("reference_logprobs", samples, drawn_from)
        return [row for part in parts for row in part]

    def train_step(self, *arguments: Any) -> dict[str, float]:
        self.steps += 1
        step: dict[str, float] = self._run("train_step", *arguments)[0]
        return step


@pytest.fixture
def policy(ranks: Any, options: PolicyOptions) -> Policy:
    return Policy(ranks, options)


@pytest.fixture(scope="module")
def recipe(repository: Path) -> Callable[..., Recipe]:
    base = repository / "functional" / "recipes" / "gym_training.yaml"
    given = ["run.dir=x", *(f"interpreters.{kind}=x" for kind in ("policy", "generation", "gym"))]

    def load(*overrides: str) -> Recipe:
        return load_recipe(base, [*given, *overrides]).recipe

    return load


@pytest.fixture(scope="module")
def samples(make_sample: Callable[..., Sample]) -> list[Sample]:
    return [
        make_sample(0, "2 + 2 = \\boxed{4}", 1.0),
        make_sample(0, "four", 0.0),
        make_sample(1, "3 + 5 = \\boxed{7}", 0.0),
        make_sample(1, "8", 1.0),
    ]


def mismatched(sample: Sample, factor: float) -> Sample:
    """The same sample as an engine would report it that finds each token less likely."""
    shifted = tuple(value - math.log(factor) for value in sample.logprobs)
    return dataclasses.replace(sample, logprobs=shifted)


def test_a_masked_sequence_is_counted_and_in_no_part_of_the_step(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    masking = recipe("parity.mask_above=1.5")
    mixed = [samples[0], samples[1], mismatched(samples[2], 3.0), samples[3]]
    others = [samples[0], samples[1], samples[3]]
    metrics = update(policy, masking, mixed, score(policy, masking, mixed, OWN), OWN)
    without = update(policy, masking, others, score(policy, masking, others, OWN), OWN)

    masked_tokens = len(samples[2].completion_ids)
    assert metrics["train/masked_sequences"] == 1
    assert metrics["train/masked_tokens"] == masked_tokens
    assert metrics["train/masked_rows"] == "1"
    assert without["train/masked_sequences"] == without["train/masked_tokens"] == 0
    assert without["train/masked_rows"] == ""
    tokens = sum(len(sample.completion_ids) for sample in others)
    assert metrics["train/completion_tokens"] == tokens
    for name in ("loss", "grad_norm"):
        assert metrics[f"train/{name}"] == pytest.approx(without[f"train/{name}"], rel=1e-5)
    for name in ("train/advantages/min", "train/advantages/max", "train/advantages/mean"):
        assert metrics[name] == without[name]
    # Rewards and parity are those of all samples: nothing is hidden by leaving it out.
    assert metrics["train/reward/mean"] == 0.5
    assert metrics["train/sequence_mult_prob_error_max"] == pytest.approx(3.0, abs=1e-4)
    share = masked_tokens / (tokens + masked_tokens)
    assert metrics["train/token_mult_prob_error"] == pytest.approx(1 + 2 * share, abs=1e-4)
    assert metrics["train/token_mult_prob_error_trained"] == pytest.approx(1, abs=1e-4)


def test_without_a_threshold_every_sequence_is_trained_on(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    own, mixed = recipe(), [*samples[:2], mismatched(samples[2], 3.0)]
    metrics = update(policy, own, mixed, score(policy, own, mixed, OWN), OWN)
    assert metrics["train/masked_sequences"] == 0
    assert metrics["train/completion_tokens"] == sum(len(it.completion_ids) for it in mixed)
    assert metrics["train/token_mult_prob_error_trained"] == metrics["train/token_mult_prob_error"]


def test_when_all_are_masked_no_step_is_taken(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    masking = recipe("parity.mask_above=1.5")
    wrong = [mismatched(sample, 2.0) for sample in samples[:2]]
    scores = score(policy, masking, wrong, OWN)
    with pytest.raises(StackError, match=r"all 2 beyond it, from (2|2\.0|1\.9)\d* to") as caught:
        update(policy, masking, wrong, scores, OWN)
    assert "mask_above 1.5" in caught.value.asked
    assert policy.steps == 0


def test_numbers_that_are_not_finite_are_an_error_and_are_never_masked(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    masking = recipe("parity.mask_above=1.5")
    for value in (math.nan, -math.inf):
        broken = dataclasses.replace(samples[2], logprobs=(-1.0, value, *samples[2].logprobs[2:]))
        with pytest.raises(StackError, match=f"{value} at completion token 1 of row 1") as caught:
            score(policy, masking, [samples[0], broken], OWN)
        assert caught.value.asked.startswith("log-probabilities by generation")


def test_the_recipes_advantages_reach_the_loss(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    own = recipe(
        "rollouts.per_prompt=2",
        "advantages.kind=grpo",
        "advantages.normalise_std=false",
        "advantages.epsilon=null",
    )
    equal = [dataclasses.replace(sample, reward=0.3) for sample in samples[2:]]
    batch = [*samples[:2], *equal]
    metrics = update(policy, own, batch, score(policy, own, batch, OWN), OWN)
    assert metrics["train/advantages/min"] == -0.5
    assert metrics["train/advantages/max"] == 0.5
    assert (metrics["train/groups"], metrics["train/groups_without_advantage"]) == (2, 1)
    assert "train/reference_kl" not in metrics
    # Every ratio is 1, so the loss is minus the mean advantage of a token.
    lengths = [len(sample.completion_ids) for sample in batch]
    expected = -(0.5 * lengths[0] - 0.5 * lengths[1]) / sum(lengths)
    assert metrics["train/loss"] == pytest.approx(expected, abs=1e-6)
    assert metrics["train/advantages/mean"] == pytest.approx(-expected)


def test_groups_that_are_named_are_compared_by_themselves_even_of_one_row(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    own = recipe(
        "rollouts.per_prompt=2",
        "advantages.kind=grpo",
        "advantages.normalise_std=false",
        "advantages.epsilon=null",
    )
    # The same row in two groups, each of equal rewards: nothing is learnt from either.
    batch = [*samples[:2], *samples[:2]]
    rewards = (1.0, 1.0, 0.0, 0.0)
    batch = [
        dataclasses.replace(sample, reward=reward)
        for sample, reward in zip(batch, rewards, strict=True)
    ]
    scores = score(policy, own, batch, OWN)
    apart = update(policy, own, batch, scores, OWN, groups=[4, 4, 7, 7])
    assert (apart["train/groups"], apart["train/groups_without_advantage"]) == (2, 2)
    together = update(policy, own, batch, scores, OWN)
    assert (together["train/groups"], together["train/groups_without_advantage"]) == (1, 0)


KL_RECIPE = ("advantages.kl_coefficient=0.25", "advantages.kl_estimator=k1")


def test_before_the_first_step_the_reference_is_the_policy_to_the_bit(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    scores = score(policy, recipe(*KL_RECIPE), samples[:2], OWN)
    assert scores.kl == [[0.0] * len(sample.completion_ids) for sample in samples[:2]]
    assert score(policy, recipe(), samples[:2], OWN).kl is None


def test_divergence_is_a_penalty_on_the_tokens_up_to_it(
    policy: Policy, recipe: Callable[..., Recipe], samples: list[Sample]
) -> None:
    # One answer, and a token of divergence 1 after two without: the returns are 1 - 1/4 up to
    # that token and 1 after it.
    (sample,) = samples[:1]
    count = len(sample.completion_ids)
    kl = [0.0, 0.0, 1.0, *[0.0] * (count - 3)]
    scores = Scores([list(sample.logprobs)], [kl])
    metrics = update(policy, recipe(*KL_RECIPE), [sample], scores, OWN)
    assert metrics["train/reference_kl"] == pytest.approx(1 / count)
    # Of two values that occur 3 and n - 3 times, the normalised ones are -sqrt((n - 3) / 3) and
    # sqrt(3 / (n - 3)).
    assert metrics["train/advantages/min"] == pytest.approx(-math.sqrt((count - 3) / 3), rel=1e-5)
    assert metrics["train/advantages/max"] == pytest.approx(math.sqrt(3 / (count - 3)), rel=1e-5)


def test_the_reference_keeps_the_start_weights_while_the_policy_moves(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    pair = samples[:2]
    old = [list(sample.logprobs) for sample in pair]
    advantages = [[1.0] * len(old[0]), [-1.0] * len(old[1])]
    step = ("train_step", pair, advantages, old, OWN)
    calls = (("reference_logprobs", pair, OWN), step, step, ("checksum",), ("logprobs", pair, OWN))
    own = dataclasses.replace(options, reference=True)
    first, second = ranks.run(own, *calls, calls[0])
    plain, _ = ranks.run(options, ("logprobs", pair, OWN), step, step, ("checksum",))
    assert first[0] == first[5] == plain[0]
    assert first[4] != plain[0]
    # Beside a reference the policy takes the same steps, to the bit, and publishes itself only.
    assert first[1:4] == plain[1:4]
    assert second[0] == second[5]


def test_ranks_without_a_reference_say_so(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    first, second = ranks.run(options, ("reference_logprobs", samples[:2], OWN))
    for error in (*first, *second):
        assert isinstance(error, StackError)
        assert "without one" in error.found
