"""Log-probabilities from logits, against tables computed by hand and another way to filter."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.policy.logprobs import shapes, token_logprobs
from posttrain.sampling import Distribution

# Distinct, so that it is clear which tokens are the likeliest.
distinct_logits = st.lists(st.integers(-60, 60), min_size=2, max_size=12, unique=True).map(
    lambda values: [value / 7 for value in values]
)
distributions = st.builds(
    Distribution,
    divisor=st.sampled_from([0.01, 0.6, 1.0, 1.7]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 3, 12, 1000]),
)


def score(
    logits: torch.Tensor, targets: list[int], *drawn_from: Distribution
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of one token a row, each row drawn from its own distribution."""
    counts = torch.ones(len(targets), dtype=torch.long)
    device = torch.device("cpu")
    return token_logprobs(logits, torch.tensor(targets), shapes(drawn_from, counts, device))


def kept(logits: list[float], drawn_from: Distribution) -> list[int]:
    """The kept tokens, likeliest first: one after another until top-p is reached."""
    likeliest = sorted(range(len(logits)), key=lambda token: -logits[token])
    chosen = likeliest[: drawn_from.top_k or len(logits)]
    weights = [math.exp((logits[token] - max(logits)) / drawn_from.divisor) for token in chosen]
    reached, places = 0.0, []
    for token, weight in zip(chosen, weights, strict=True):
        if reached >= drawn_from.top_p < 1:
            break
        places.append(token)
        reached += weight / sum(weights)
    return places


def test_logprobs_of_a_hand_computed_table() -> None:
    logits = torch.tensor([[math.log(1), math.log(2), math.log(5)]] * 2)
    plain, _ = score(logits, [1, 2], Distribution(), Distribution())
    assert plain.tolist() == pytest.approx([math.log(2 / 8), math.log(5 / 8)])
    halved, _ = score(logits, [1, 2], *[Distribution(0.5)] * 2)  # squares the weights: 1, 4, 25
    assert halved.tolist() == pytest.approx([math.log(4 / 30), math.log(25 / 30)])


@pytest.mark.parametrize(
    ("drawn_from", "remaining"),
    [
        (Distribution(top_k=1), [8]),
        (Distribution(top_k=2), [8, 4]),
        (Distribution(top_k=4), [8, 4, 2, 1]),
        (Distribution(top_k=9), [8, 4, 2, 1]),
        (Distribution(top_p=0.5), [8]),  # 8/15 reaches it
        (Distribution(top_p=0.6), [8, 4]),
        (Distribution(top_p=0.85), [8, 4, 2]),
        # Top-k first: 8/12 of what it left already reaches 0.6.
        (Distribution(top_p=0.6, top_k=2), [8]),
        # The temperature before both: 64, 16, 4, 1; 64/85 reaches 0.6.
        (Distribution(0.5, top_p=0.6), [64]),
    ],
)
def test_filtered_logprobs_of_a_hand_computed_table(
    drawn_from: Distribution, remaining: list[int]
) -> None:
    logits = torch.tensor([[math.log(1), math.log(8), math.log(2), math.log(4)]])
    values, outside = score(logits, [1], drawn_from)
    assert values.tolist() == pytest.approx([math.log(remaining[0] / sum(remaining))], abs=1e-6)
    assert outside.tolist() == [False]


@given(distinct_logits, distributions)
def test_every_token_kept_is_scored_among_those_kept(
    logits: list[float], drawn_from: Distribution
) -> None:
    """Another algorithm in float64; and what it does not keep, is told to be outside."""
    remaining = kept(logits, drawn_from)
    values, outside = score(
        torch.tensor([logits] * len(logits)), list(range(len(logits))), *[drawn_from] * len(logits)
    )
    scaled = [logit / drawn_from.divisor for logit in logits]
    for token, value in enumerate(values.tolist()):
        among = {*remaining, token}
        top = max(scaled)
        total = top + math.log(sum(math.exp(scaled[each] - top) for each in among))
        assert outside[token].item() == (token not in remaining)
        # float32 holds logits of up to 900 with an error of 3e-5.
        assert value == pytest.approx(scaled[token] - total, abs=2e-4, rel=1e-5)


def test_tokens_as_likely_as_the_last_one_that_top_k_keeps_are_kept_with_it() -> None:
    logits = torch.tensor([[3.0, 1.0, 1.0, 1.0, 0.0]])
    for token in (1, 2, 3):
        values, outside = score(logits, [token], Distribution(top_k=2))
        assert values.item() == pytest.approx(1 - math.log(math.exp(3) + 3 * math.e), abs=1e-6)
        assert not outside.item()


def test_a_sampled_token_beyond_the_border_joins_the_others_and_is_counted() -> None:
    logits = torch.tensor([[math.log(5), math.log(3), math.log(2)]], requires_grad=True)
    values, outside = score(logits, [1], Distribution(top_k=1))
    assert outside.tolist() == [True]
    assert values.item() == pytest.approx(math.log(3 / 8))
    values.sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist()[0] == pytest.approx([-5 / 8, 5 / 8, 0.0])


@given(st.data())
def test_rows_with_distributions_of_their_own_score_as_if_alone(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 5))
    each = data.draw(st.lists(distributions, min_size=rows, max_size=rows))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    logits = 3 * torch.randn(rows, 9, generator=generator)
    targets = torch.randint(9, (rows,), generator=generator).tolist()
    together, outside = score(logits, targets, *each)
    for row, drawn_from in enumerate(each):
        alone, beyond = score(logits[row : row + 1], [targets[row]], drawn_from)
        assert alone.item() == together[row].item()
        assert beyond.item() == outside[row].item()


@given(distributions, st.integers(0, 1000))
def test_gradients_are_those_of_the_kept_tokens_softmax(
    drawn_from: Distribution, seed: int
) -> None:
    logits = 2 * torch.randn(1, 9, generator=torch.Generator().manual_seed(seed))
    likeliest = int(logits.argmax())
    places = kept(logits[0].tolist(), drawn_from)
    logits.requires_grad_()
    score(logits, [likeliest], drawn_from)[0].sum().backward()
    share = torch.zeros(9)
    share[places] = (logits.detach()[0, places] / drawn_from.divisor).softmax(-1)
    share[likeliest] -= 1
    assert logits.grad is not None
    expected = -share / drawn_from.divisor
    torch.testing.assert_close(logits.grad[0], expected, atol=2e-4, rtol=1e-4)


def test_no_tokens_have_no_scores() -> None:
    for drawn_from in (Distribution(), Distribution(0.6, 0.9, 3)):
        none = torch.zeros(0, dtype=torch.long)
        drawn = shapes([drawn_from], torch.tensor([0]), none.device)
        values, outside = token_logprobs(torch.zeros(0, 5), none, drawn)
        assert values.shape == outside.shape == (0,)


def test_logprobs_are_float32_even_of_bfloat16_logits() -> None:
    logits = torch.tensor([[0.0, 1.0]], dtype=torch.bfloat16)
    values, _ = score(logits, [1], Distribution(0.7))
    assert values.dtype == torch.float32
    assert values.item() == pytest.approx(-math.log1p(math.exp(-1 / 0.7)), rel=1e-6)
