"""Parity and the estimators of divergence, against tables computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from posttrain.kl import estimates
from posttrain.policy.parity import measure

LN_2, LN_4 = math.log(2), math.log(4)
# Three tokens of which the policy's probability is 1, 2 and 1/4 times the engine's.
GENERATION = [[-1.0, -2.0], [-3.0]]
POLICY = [[-1.0, -2.0 + LN_2], [-3.0 - LN_4]]

logprobs = st.floats(-20, 0)
pairs = st.lists(st.tuples(logprobs, logprobs), min_size=1, max_size=8)


def test_parity_is_the_hand_computed_table() -> None:
    found = measure(GENERATION, POLICY)
    assert found.mean == pytest.approx((1 + 2 + 4) / 3)
    assert found.max == pytest.approx(4)
    assert found.sequences == pytest.approx(((1 + 2) / 2, 4))
    # d is 0, -ln 2 and ln 4; exp(-d) is 1, 2 and 1/4.
    assert found.kl_k1 == pytest.approx((0 - LN_2 + LN_4) / 3)
    assert found.kl_k3 == pytest.approx((0 + (2 - 1 - LN_2) + (1 / 4 - 1 + LN_4)) / 3)


def test_equal_sides_are_exactly_1_and_0_apart() -> None:
    found = measure(GENERATION, GENERATION)
    assert (found.mean, found.max, found.kl_k1, found.kl_k3) == (1, 1, 0, 0)
    assert found.sequences == (1, 1)


def test_the_metrics_carry_the_figures() -> None:
    found = measure(GENERATION, POLICY)
    assert found.metrics() == {
        "token_mult_prob_error": found.mean,
        "token_mult_prob_error_max": found.max,
        "sequence_mult_prob_error_max": found.sequences[1],
        "generation_kl_k1": found.kl_k1,
        "generation_kl_k3": found.kl_k3,
    }


@pytest.mark.parametrize(
    ("limit", "masked"), [(None, ()), (4.1, ()), (2.0, (1,)), (1.5, (1,)), (1.49, (0, 1))]
)
def test_sequences_beyond_a_limit_are_those_whose_mean_is_above_it(
    limit: float | None, masked: tuple[int, ...]
) -> None:
    assert measure(GENERATION, POLICY).beyond(limit) == masked


@examples(max_examples=50)
@given(pairs)
def test_no_order_of_the_two_sides_is_better_and_nothing_is_nearer_than_equality(
    values: list[tuple[float, float]],
) -> None:
    generation, policy = ([list(side)] for side in zip(*values, strict=True))
    one, other = measure(generation, policy), measure(policy, generation)
    assert one.mean == other.mean >= 1
    assert one.max == other.max >= one.mean * (1 - 1e-12)
    assert one.kl_k1 == pytest.approx(-other.kl_k1)
    assert one.kl_k3 >= -1e-12


@examples(max_examples=50)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.randoms())
def test_k1_and_k3_average_to_the_divergence_itself(weights: list[float], random: object) -> None:
    p = [weight / math.fsum(weights) for weight in weights]
    q = list(p)
    random.shuffle(q)
    ln_p, ln_q = [math.log(x) for x in p], [math.log(x) for x in q]
    exact = math.fsum(x * (a - b) for x, a, b in zip(p, ln_p, ln_q, strict=True))
    for estimator in ("k1", "k3"):
        each = estimates(estimator, ln_p, ln_q)
        assert math.fsum(each * p) == pytest.approx(exact, abs=1e-12)


def test_single_estimates_are_the_hand_computed_ones() -> None:
    p, q = [-1.0, -1.0 - LN_2], [-1.0 - LN_4, -1.0]  # d is ln 4 and -ln 2
    assert estimates("k1", p, q) == pytest.approx([LN_4, -LN_2])
    assert estimates("k2", p, q) == pytest.approx([LN_4**2 / 2, LN_2**2 / 2])
    assert estimates("k3", p, q) == pytest.approx([1 / 4 - 1 + LN_4, 2 - 1 - LN_2])


def test_a_small_difference_is_not_lost_to_rounding() -> None:
    (k3,) = estimates("k3", [-1e-6], [0.0])
    assert k3 == pytest.approx(5e-13, rel=1e-3)


def test_broken_numbers_stay_visible() -> None:
    assert math.isnan(measure([[math.nan, -1.0]], [[-1.0, -1.0]]).mean)
    assert math.isnan(measure([[-1.0]], [[math.nan]]).kl_k3)
    assert measure([[-1000.0]], [[-1.0]]).mean == math.inf
    assert measure([[-1.0]], [[-math.inf]]).kl_k1 == math.inf
    assert estimates("k3", [-1000.0], [0.0]) == [math.inf]


def test_a_ratio_that_is_no_number_is_never_within_a_limit() -> None:
    found = measure([[-1.0], [math.nan]], [[-1.0], [-1.0]])
    for limit in (None, 2.0):
        with pytest.raises(ValueError, match="not a number"):
            found.beyond(limit)


@pytest.mark.parametrize(
    ("generation", "policy"), [([], []), ([[]], [[]]), ([[-1.0]], [[]]), ([[-1.0]], [])]
)
def test_parity_without_the_same_tokens_is_refused(
    generation: list[list[float]], policy: list[list[float]]
) -> None:
    with pytest.raises(ValueError, match="same completion tokens"):
        measure(generation, policy)


def test_estimates_of_other_tokens_or_by_another_name_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens beside those of 1"):
        estimates("k1", [-1.0, -1.0], [-1.0])
    with pytest.raises(ValueError, match="k1, k2 and k3"):
        estimates("k4", [-1.0], [-1.0])
