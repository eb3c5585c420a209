"""The clipped policy loss, against a table computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.policy.loss import Clip, clipped_policy_loss

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
        torch.tensor([[advantage]]),
        torch.tensor([[True]]),
        Clip(0.2, 0.3),
    )
    loss.total.backward()
    assert loss.total.item() == pytest.approx(expected, abs=1e-6)
    assert loss.clipped.item() == held
    assert new.grad is not None
    # d/dlogp of -ratio * A is itself; a held token is constant.
    assert new.grad.item() == pytest.approx(0.0 if held else expected, abs=1e-6)


def test_tokens_add_up_each_with_its_own_advantage() -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    advantages = torch.tensor([[1.0, 0.5, 0.25], [-1.0, 8.0, 8.0]])
    loss = clipped_policy_loss(
        torch.zeros(2, 3), torch.zeros(2, 3), advantages, mask, Clip(0.2, 0.2)
    )
    assert loss.total.item() == -(1 + 0.5 + 0.25 - 1)


@given(st.sampled_from([0.0, 1e30, -1e30, math.inf, -math.inf, math.nan]))
def test_what_a_masked_position_holds_reaches_neither_loss_nor_gradient(value: float) -> None:
    new = torch.tensor([[-1.0, value]], requires_grad=True)
    loss = clipped_policy_loss(
        new,
        torch.tensor([[-1.0, 0.0]]),
        torch.tensor([[1.0, value]]),
        torch.tensor([[True, False]]),
        Clip(0.2, 0.2),
    )
    loss.total.backward()
    assert loss.total.item() == -1
    assert new.grad is not None
    assert new.grad.tolist() == [[-1.0, 0.0]]
