"""Advantages, log-probabilities, loss and parity, against tables computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.policy.advantages import global_advantages
from posttrain.policy.logprobs import effective_temperature, token_logprobs
from posttrain.policy.loss import Clip, clipped_policy_loss
from posttrain.policy.parity import token_mult_prob_error

rewards = st.floats(-100, 100)


@pytest.mark.parametrize(
    ("given_rewards", "expected"),
    [
        ([0.0, 1.0], [-1.0, 1.0]),
        ([1.0, 0.0, 0.0, 0.0], [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]),
        ([1.0, 2.0, 3.0], [-math.sqrt(1.5), 0.0, math.sqrt(1.5)]),
        ([-1.0, 1.0], [-1.0, 1.0]),
        ([5.0], [0.0]),
        ([0.1, 0.1, 0.1], [0.0, 0.0, 0.0]),
        ([0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_advantages_are_rewards_normalised_over_the_batch(
    given_rewards: list[float], expected: list[float]
) -> None:
    assert global_advantages(given_rewards) == pytest.approx(expected, abs=1e-7)


def test_two_opposite_verdicts_have_exactly_opposite_advantages() -> None:
    right, wrong = global_advantages([1.0, 0.0])
    assert right == -wrong
    assert right > 0


def test_epsilon_damps_differences_of_its_own_size() -> None:
    assert global_advantages([0.0, 1.0], epsilon=0.5) == [-0.5, 0.5]


@given(st.lists(rewards, min_size=1, max_size=20))
def test_advantages_keep_the_order_and_are_centred(values: list[float]) -> None:
    advantages = global_advantages(values)
    assert all(map(math.isfinite, advantages))
    assert math.fsum(advantages) == pytest.approx(0, abs=1e-5)
    assert max(map(abs, advantages)) <= math.sqrt(len(values)) + 1e-9
    by_reward = [advantage for _, advantage in sorted(zip(values, advantages, strict=True))]
    assert by_reward == sorted(advantages)


@given(st.lists(st.integers(-10, 10), min_size=2, max_size=20), st.integers(-5, 5))
def test_a_constant_added_to_all_rewards_changes_nothing(values: list[int], shift: int) -> None:
    moved = global_advantages([float(value + shift) for value in values])
    assert moved == pytest.approx(global_advantages(list(map(float, values))), abs=1e-9)


@pytest.mark.parametrize("values", [[], [math.nan], [0.0, math.inf]])
def test_rewards_that_have_no_mean_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="reward"):
        global_advantages(values)


def test_logprobs_of_a_hand_computed_table() -> None:
    logits = torch.tensor([[math.log(1), math.log(2), math.log(5)]] * 2)
    targets = torch.tensor([1, 2])
    plain = token_logprobs(logits, targets, 1.0)
    assert plain.tolist() == pytest.approx([math.log(2 / 8), math.log(5 / 8)])
    halved = token_logprobs(logits, targets, 0.5)  # squares the weights: 1, 4, 25
    assert halved.tolist() == pytest.approx([math.log(4 / 30), math.log(25 / 30)])
    assert torch.equal(token_logprobs(logits, targets, 0.0), plain)


@pytest.mark.parametrize(
    ("temperature", "divisor"),
    [(0.0, 1.0), (1e-9, 0.01), (0.005, 0.01), (0.01, 0.01), (0.6, 0.6), (1.0, 1.0), (2.0, 2.0)],
)
def test_the_divisor_is_the_engines(temperature: float, divisor: float) -> None:
    assert effective_temperature(temperature) == divisor


@pytest.mark.parametrize("temperature", [-0.1, -1e-12, math.nan, math.inf])
def test_temperatures_that_mean_nothing_are_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        effective_temperature(temperature)


def test_logprobs_are_float32_even_of_bfloat16_logits() -> None:
    logits = torch.tensor([[0.0, 1.0]], dtype=torch.bfloat16)
    values = token_logprobs(logits, torch.tensor([1]), 0.7)
    assert values.dtype == torch.float32
    assert values.item() == pytest.approx(-math.log1p(math.exp(-1 / 0.7)), rel=1e-6)


# Ratio, advantage, the token's loss with bounds 0.8 and 1.3, whether the clip holds it.
LOSS_TABLE = [
    (1.0, 2.0, -2.0, False),
    (1.2, 1.0, -1.2, False),
    (2.0, 1.0, -1.3, True),
    (0.5, 1.0, -0.5, False),
    (2.0, -1.0, 2.0, False),
    (0.5, -1.0, 0.8, True),
    (3.0, 0.0, 0.0, False),
]


@pytest.mark.parametrize(("ratio", "advantage", "expected", "held"), LOSS_TABLE)
def test_a_tokens_loss_is_the_hand_computed_one(
    ratio: float, advantage: float, expected: float, held: bool
) -> None:
    new = torch.tensor([[math.log(ratio) - 1.0]], requires_grad=True)
    loss = clipped_policy_loss(
        new,
        torch.tensor([[-1.0]]),
        torch.tensor([advantage]),
        torch.tensor([[True]]),
        Clip(0.2, 0.3),
    )
    loss.total.backward()
    assert loss.total.item() == pytest.approx(expected, abs=1e-6)
    assert loss.clipped.item() == held
    assert new.grad is not None
    # d/dlogp of -ratio * A is itself; a held token is constant.
    assert new.grad.item() == pytest.approx(0.0 if held else expected, abs=1e-6)


def test_tokens_add_up_and_each_counts_the_same() -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    loss = clipped_policy_loss(
        torch.zeros(2, 3), torch.zeros(2, 3), torch.tensor([1.0, -1.0]), mask, Clip(0.2, 0.2)
    )
    assert loss.total.item() == -3 + 1


@given(st.sampled_from([0.0, 1e30, -1e30, math.inf, -math.inf, math.nan]))
def test_what_a_masked_position_holds_reaches_neither_loss_nor_gradient(value: float) -> None:
    new = torch.tensor([[-1.0, value]], requires_grad=True)
    loss = clipped_policy_loss(
        new,
        torch.tensor([[-1.0, 0.0]]),
        torch.tensor([1.0]),
        torch.tensor([[True, False]]),
        Clip(0.2, 0.2),
    )
    loss.total.backward()
    assert loss.total.item() == -1
    assert new.grad is not None
    assert new.grad.tolist() == [[-1.0, 0.0]]


def test_parity_is_the_mean_factor() -> None:
    generation = [[-1.0, -2.0], [-3.0]]
    policy = [[-1.0, -2.0 + math.log(2)], [-3.0 - math.log(4)]]
    assert token_mult_prob_error(generation, policy) == pytest.approx((1 + 2 + 4) / 3)
    assert token_mult_prob_error(generation, generation) == 1


def test_parity_catches_raw_logprobs_at_another_temperature() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).repeat(4, 1)
    targets = torch.arange(4)
    raw = token_logprobs(logits, targets, 1.0).tolist()
    scaled = token_logprobs(logits, targets, 0.6).tolist()
    assert token_mult_prob_error([raw], [scaled]) > 1.5


def test_parity_of_broken_numbers_is_not_finite() -> None:
    assert math.isnan(token_mult_prob_error([[math.nan, -1.0]], [[-1.0, -1.0]]))
    assert token_mult_prob_error([[-math.inf]], [[-1.0]]) == math.inf
    assert token_mult_prob_error([[-1000.0]], [[-1.0]]) == math.inf


@pytest.mark.parametrize(
    ("generation", "policy"), [([], []), ([[]], [[]]), ([[-1.0]], [[]]), ([[-1.0]], [])]
)
def test_parity_without_pairs_is_refused(
    generation: list[list[float]], policy: list[list[float]]
) -> None:
    with pytest.raises(ValueError, match=r"data point|argument|shorter"):
        token_mult_prob_error(generation, policy)
