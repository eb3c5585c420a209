"""Advantages of every kind, against tables computed by hand, and their laws."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from posttrain.advantages import Rollout, advantages, by_group
from posttrain.advantages.grpo import grpo
from posttrain.advantages.reinforce import reinforce_plus_plus
from posttrain.config.objective import Advantages

ROOT_3, ROOT_5 = math.sqrt(3), math.sqrt(5)


def rollouts(*groups: list[float], tokens: int = 1) -> list[Rollout]:
    """Rewards, one list a group."""
    return [Rollout(name, reward, tokens) for name, own in enumerate(groups) for reward in own]


def firsts(values: list[list[float]]) -> list[float]:
    """Each rollout's advantage where its tokens share one."""
    assert all(len(set(own)) == 1 for own in values)
    return [own[0] for own in values]


# Rewards of two prompts, A: 1 0 0 0 and B: 1 1 1 0, one token a rollout.
# A's mean is 1/4, its sum of squares (3/4)^2 + 3 (1/4)^2 = 3/4, its deviation therefore
# sqrt((3/4) / 3) = 1/2; the others' mean is 0 for the right one and 1/3 for a wrong one. B is A
# mirrored.
A, B = [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("normalise_std", "leave_one_out", "expected"),
    [
        (False, False, [3 / 4, -1 / 4, -1 / 4, -1 / 4, 1 / 4, 1 / 4, 1 / 4, -3 / 4]),
        (False, True, [1, -1 / 3, -1 / 3, -1 / 3, 1 / 3, 1 / 3, 1 / 3, -1]),
        (True, False, [3 / 2, -1 / 2, -1 / 2, -1 / 2, 1 / 2, 1 / 2, 1 / 2, -3 / 2]),
        (True, True, [2, -2 / 3, -2 / 3, -2 / 3, 2 / 3, 2 / 3, 2 / 3, -2]),
    ],
)
def test_grpo_is_the_hand_computed_table(
    normalise_std: bool, leave_one_out: bool, expected: list[float]
) -> None:
    found = grpo(rollouts(A, B), normalise_std=normalise_std, leave_one_out=leave_one_out)
    assert firsts(found) == pytest.approx(expected)


# The batch's mean is 1/2 and its deviation 1/2. After the groups' means are subtracted the mean is
# 0 and the mean square (2 (3/4)^2 + 6 (1/4)^2) / 8 = 3/16.
@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        (False, [1, -1, -1, -1, 1, 1, 1, -1]),
        (True, [ROOT_3, *[-1 / ROOT_3] * 3, *[1 / ROOT_3] * 3, -ROOT_3]),
    ],
)
def test_reinforce_plus_plus_is_the_hand_computed_table(
    baseline: bool, expected: list[float]
) -> None:
    found = reinforce_plus_plus(rollouts(A, B), baseline=baseline)
    assert firsts(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0.0, 1.0], [-1.0, 1.0]),
        ([1.0, 0.0, 0.0, 0.0], [ROOT_3, *[-1 / ROOT_3] * 3]),
        ([1.0, 2.0, 3.0], [-math.sqrt(1.5), 0.0, math.sqrt(1.5)]),
        ([-1.0, 1.0], [-1.0, 1.0]),
        ([5.0], [0.0]),
        ([0.1, 0.1, 0.1], [0.0, 0.0, 0.0]),
    ],
)
def test_without_baseline_every_prompt_is_compared_with_all_others(
    rewards: list[float], expected: list[float]
) -> None:
    one_rollout_each = rollouts(*([reward] for reward in rewards))
    found = reinforce_plus_plus(one_rollout_each, baseline=False)
    assert firsts(found) == pytest.approx(expected)


def test_a_long_sequence_weighs_as_many_tokens_as_it_has() -> None:
    # Four tokens: rewards 1, 0, 0, 0. Their mean is 1/4, their deviation sqrt(3) / 4.
    unequal = [Rollout(0, 1.0, 1), Rollout(1, 0.0, 3)]
    found = reinforce_plus_plus(unequal, baseline=False)
    assert list(map(len, found)) == [1, 3]
    assert firsts(found) == pytest.approx([ROOT_3, -1 / ROOT_3])
    # Group means are those of rollouts, not of tokens.
    pair = [Rollout(0, 1.0, 1), Rollout(0, 0.0, 3)]
    assert grpo(pair, normalise_std=False, leave_one_out=False) == [[0.5], [-0.5] * 3]


# One rollout of reward 1 and divergences 1, 2, 1, one of reward 0 without any; beta is 1/4.
# Sums from each token on: 4, 3, 1, so the returns are 0, 1/4, 3/4 and 0. Their mean is 1/4, their
# deviations -1/4, 0, 1/2, -1/4, the mean square (1/16 + 0 + 1/4 + 1/16) / 4 = 3/32.
KL = [Rollout(0, 1.0, 3, (1.0, 2.0, 1.0)), Rollout(1, 0.0, 1, (0.0,))]
KL_DEVIATION = math.sqrt(3 / 32)


def test_divergence_is_a_penalty_at_each_token_for_it_and_all_before() -> None:
    found = reinforce_plus_plus(KL, baseline=False, kl_coefficient=0.25)
    expected = [[-0.25, 0.0, 0.5], [-0.25]]
    for own, wanted in zip(found, expected, strict=True):
        assert own == pytest.approx([value / KL_DEVIATION for value in wanted])


def test_with_baseline_the_groups_mean_reward_is_subtracted_but_no_divergence() -> None:
    # In one group: rewards 1/2 and -1/2, so the returns are -1/2, -1/4, 1/4 and -1/2, their mean is
    # -1/4, the deviations -1/4, 0, 1/2, -1/4 again.
    together = [replace(rollout, group=0) for rollout in KL]
    found = reinforce_plus_plus(together, baseline=True, kl_coefficient=0.25)
    assert found[0] == pytest.approx([-0.25 / KL_DEVIATION, 0.0, 0.5 / KL_DEVIATION])
    # Each in a group of its own has no reward left: the returns are -1, -3/4, -1/4 and 0, their
    # mean -1/2, the mean square (1/4 + 1/16 + 1/16 + 1/4) / 4 = 5/32.
    apart = reinforce_plus_plus(KL, baseline=True, kl_coefficient=0.25)
    scale = 4 * math.sqrt(5 / 32)
    assert list(chain(*apart)) == pytest.approx([each / scale for each in (-2, -1, 1, 2)])


def test_epsilon_is_added_to_the_deviation() -> None:
    pair = rollouts([0.0, 1.0])
    assert reinforce_plus_plus(pair, baseline=False, epsilon=0.5) == [[-0.5], [0.5]]
    deviation = math.sqrt(0.5)
    found = grpo(pair, normalise_std=True, leave_one_out=False, epsilon=deviation)
    assert firsts(found) == pytest.approx([-0.25 / deviation, 0.25 / deviation])


def test_two_opposite_verdicts_have_exactly_opposite_advantages() -> None:
    (right,), (wrong,) = reinforce_plus_plus(rollouts([1.0, 0.0]), baseline=False, epsilon=1e-8)
    assert right == -wrong
    assert right > 0


def section(kind: str, **changes: object) -> Advantages:
    values = {
        "kind": kind,
        "normalise_std": True,
        "leave_one_out": False,
        "epsilon": 1e-8,
        "kl_coefficient": 0.0,
        "kl_estimator": None,
    }
    return Advantages.model_validate({**values, **changes})


KINDS = [
    section("reinforce_plus_plus"),
    section("reinforce_plus_plus_baseline"),
    section("grpo"),
    section("grpo", leave_one_out=True),
    section("grpo", normalise_std=False, epsilon=None),
    section("grpo", normalise_std=False, epsilon=None, leave_one_out=True),
]
GROUPED = KINDS[1:]


@pytest.mark.parametrize("own", KINDS, ids=str)
def test_equal_rewards_teach_nothing_even_when_their_mean_is_rounded(own: Advantages) -> None:
    assert sum([0.1] * 3) / 3 != 0.1
    found = advantages(own, rollouts([0.1] * 3, [0.1] * 3, tokens=2))
    assert found == [[0.0, 0.0]] * 6


@pytest.mark.parametrize("own", GROUPED, ids=str)
def test_a_group_of_equal_rewards_or_of_one_rollout_has_no_advantage_beside_others(
    own: Advantages,
) -> None:
    found = firsts(advantages(own, rollouts([0.1] * 3, [1.0, 0.0], [0.7])))
    assert found[:3] == [0.0] * 3
    assert found[3] > 0 > found[4]
    assert found[5] == 0.0


@pytest.mark.parametrize("own", KINDS, ids=str)
def test_a_single_rollout_has_nothing_to_be_compared_with(own: Advantages) -> None:
    assert advantages(own, [Rollout(0, 1.0, 2)]) == [[0.0, 0.0]]


def test_the_recipes_section_reaches_the_formula() -> None:
    assert firsts(advantages(section("grpo"), rollouts(A, B)))[0] == pytest.approx(3 / 2)
    assert firsts(advantages(GROUPED[2], rollouts(A, B)))[0] == pytest.approx(2)
    assert firsts(advantages(GROUPED[3], rollouts(A, B)))[0] == pytest.approx(3 / 4)
    assert firsts(advantages(GROUPED[4], rollouts(A, B)))[0] == pytest.approx(1)
    assert firsts(advantages(GROUPED[0], rollouts(A, B)))[0] == pytest.approx(ROOT_3)
    assert firsts(advantages(KINDS[0], rollouts(A, B)))[0] == pytest.approx(1)
    own = section("reinforce_plus_plus", kl_coefficient=0.25, kl_estimator="k1")
    assert advantages(own, KL)[0][2] == pytest.approx(0.5 / KL_DEVIATION)


@st.composite
def batches(draw: st.DrawFn) -> list[Rollout]:
    count = draw(st.integers(1, 12))
    return [
        Rollout(draw(st.integers(0, 3)), draw(st.integers(-8, 8)) / 8, draw(st.integers(1, 5)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("own", KINDS, ids=str)
@examples(max_examples=25)
@given(batch=batches(), shift=st.integers(-5, 5))
def test_advantages_are_finite_and_a_constant_reward_for_all_changes_nothing(
    own: Advantages, batch: list[Rollout], shift: int
) -> None:
    found = advantages(own, batch)
    assert [len(values) for values in found] == [rollout.tokens for rollout in batch]
    assert all(map(math.isfinite, chain(*found)))
    moved = [replace(rollout, reward=rollout.reward + shift) for rollout in batch]
    assert list(chain(*advantages(own, moved))) == pytest.approx(list(chain(*found)), abs=1e-6)


@pytest.mark.parametrize("own", GROUPED[1:], ids=str)
@examples(max_examples=25)
@given(batch=batches())
def test_grpo_groups_do_not_know_of_each_other(own: Advantages, batch: list[Rollout]) -> None:
    found = advantages(own, batch)
    for places in by_group(batch).values():
        alone = advantages(own, [batch[place] for place in places])
        assert alone == [found[place] for place in places]
        assert math.fsum(own[0] for own in alone) == pytest.approx(0, abs=1e-6)


@examples(max_examples=25)
@given(batch=batches(), seed=st.randoms())
def test_the_order_of_rollouts_does_not_matter(batch: list[Rollout], seed: object) -> None:
    order = list(range(len(batch)))
    seed.shuffle(order)
    for own in KINDS:
        found = advantages(own, batch)
        mixed = advantages(own, [batch[place] for place in order])
        for place, values in zip(order, mixed, strict=True):
            assert values == pytest.approx(found[place], abs=1e-9)


@examples(max_examples=25)
@given(batch=batches())
def test_reinforce_plus_plus_advantages_add_up_to_0_over_tokens(batch: list[Rollout]) -> None:
    for own in KINDS[:2]:
        found = list(chain(*advantages(own, batch)))
        assert math.fsum(found) == pytest.approx(0, abs=1e-6)
        assert math.fsum(value**2 for value in found) / len(found) in (0, pytest.approx(1))


@examples(max_examples=25)
@given(batch=batches())
def test_a_vanishing_coefficient_is_no_coefficient(batch: list[Rollout]) -> None:
    diverging = [replace(rollout, kl=(0.5,) * rollout.tokens) for rollout in batch]
    for baseline in (False, True):
        plain = reinforce_plus_plus(batch, baseline=baseline, epsilon=1e-3)
        tiny = reinforce_plus_plus(diverging, baseline=baseline, epsilon=1e-3, kl_coefficient=1e-12)
        assert list(chain(*tiny)) == pytest.approx(list(chain(*plain)), abs=1e-6)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_rewards_that_have_no_mean_are_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="rewards must be finite"):
        Rollout(0, reward, 1)


@pytest.mark.parametrize("kl", [(math.nan, 0.0), (0.0, math.inf)])
def test_divergences_that_are_not_finite_are_refused(kl: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        Rollout(0, 1.0, 2, kl)


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(ValueError, match="0 completion tokens"):
        Rollout(0, 1.0, 0)
    with pytest.raises(ValueError, match="1 divergences for 2"):
        Rollout(0, 1.0, 2, (0.5,))
    with pytest.raises(ValueError, match=r"coefficient of 0\.0"):
        reinforce_plus_plus(KL, baseline=False)
    with pytest.raises(ValueError, match=r"coefficient of 0\.1"):
        reinforce_plus_plus(rollouts(A), baseline=False, kl_coefficient=0.1)
    with pytest.raises(ValueError, match="no divergence in the reward"):
        grpo(KL, normalise_std=True, leave_one_out=False)


@pytest.mark.parametrize("own", KINDS, ids=str)
def test_without_a_rollout_there_are_no_advantages(own: Advantages) -> None:
    with pytest.raises(ValueError, match="at least one rollout"):
        advantages(own, [])
