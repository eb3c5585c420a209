"""The learning rate over the steps."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from posttrain.errors import RecipeError
from posttrain.policy.schedule import Schedule, advance, make_scheduler


def optimizer(rate: float = 0.5) -> torch.optim.AdamW:
    return torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=rate)


def rates(schedule: Schedule, steps: int) -> list[float]:
    adam = optimizer()
    scheduler = make_scheduler(adam, schedule)
    found = []
    for _ in range(steps):
        used = adam.param_groups[0]["lr"]
        adam.step()
        found.append(advance(scheduler))
        assert found[-1] == used
    return found


def test_without_a_schedule_the_rate_stays() -> None:
    assert rates(Schedule(), 3) == [0.5, 0.5, 0.5]


def test_a_warmup_rises_to_the_full_rate_and_its_first_step_trains() -> None:
    assert rates(Schedule(warmup_steps=4), 6) == [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]


def test_a_linear_fall_starts_at_the_full_rate_and_stays_at_its_end() -> None:
    schedule = Schedule("linear", warmup_steps=1, steps=5, final=0.2)
    assert rates(schedule, 7) == pytest.approx([0.5, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1])


def test_a_cosine_fall_is_halfway_down_at_its_middle() -> None:
    schedule = Schedule("cosine", steps=4)
    expected = [0.25 * (1 + math.cos(math.pi * x / 4)) for x in range(5)]
    assert rates(schedule, 6) == pytest.approx([*expected, 0.0])
    assert rates(schedule, 3)[2] == pytest.approx(0.25)


@pytest.mark.parametrize(("kind", "final"), [("linear", 0.25), ("cosine", 0.0)])
def test_it_is_what_torchs_own_chain_of_schedulers_gives(kind: str, final: float) -> None:
    adam = optimizer()
    fall: Any = (
        LinearLR(adam, 1.0, final, total_iters=8)
        if kind == "linear"
        else CosineAnnealingLR(adam, T_max=8)
    )
    chain = SequentialLR(adam, [LinearLR(adam, 1 / 4, 1.0, total_iters=3), fall], [3])
    expected = []
    for _ in range(11):
        expected.append(adam.param_groups[0]["lr"])
        adam.step()
        chain.step()
    found = [0.5 * Schedule(kind, 4, 12, final).factor(step) for step in range(12)]
    assert found[:4] == pytest.approx([0.125, 0.25, 0.375, 0.5])
    # Torch's warm-up is over when its full rate comes, so that ours holds it one step longer.
    assert found[4:] == pytest.approx(expected[3:])


@given(
    st.sampled_from(["constant", "linear", "cosine"]),
    st.integers(0, 20),
    st.integers(1, 40),
    st.floats(0, 1),
)
def test_it_rises_then_never_rises_again_and_stays_between_its_ends(
    kind: str, warmup: int, fall: int, final: float
) -> None:
    schedule = Schedule(kind, warmup, warmup + fall, final)
    factors = [schedule.factor(step) for step in range(warmup + fall + 5)]
    assert factors[:warmup] == sorted(factors[:warmup])
    rest = factors[warmup:]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(rest))
    assert rest[0] == 1.0
    end = 1.0 if kind == "constant" else final
    assert factors[-1] == pytest.approx(end, abs=1e-12)
    assert all(0 <= factor <= 1 for factor in factors)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "exponential"},
        {"kind": "linear", "warmup_steps": 5, "steps": 5},
        {"warmup_steps": -1},
        {"final": 1.5},
        {"final": math.nan},
    ],
)
def test_what_is_no_schedule_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"policy\.schedule"):
        Schedule(**wrong)


def test_a_scheduler_goes_on_where_another_one_was() -> None:
    schedule = Schedule("cosine", warmup_steps=2, steps=9)
    straight = rates(schedule, 8)
    adam = optimizer()
    first = make_scheduler(adam, schedule)
    for _ in range(5):
        adam.step()
        advance(first)
    second_adam = optimizer()
    second = make_scheduler(second_adam, schedule)
    second_adam.load_state_dict(adam.state_dict())
    second.load_state_dict(first.state_dict())
    assert second.last_epoch == 5
    found = []
    for _ in range(3):
        second_adam.step()
        found.append(advance(second))
    assert found == straight[5:]
