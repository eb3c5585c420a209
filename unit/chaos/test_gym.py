"""Gym servers that die or never answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.chaos.tree import ENDING_S, MANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.chaos.tree import Training


def test_gym_servers_that_never_answer_are_named_at_the_deadline_of_the_call(
    train: Callable[..., Training],
) -> None:
    run = train(MANY, "timeouts.call_s=5")
    run.until("generation")
    run.gym().suspend()

    said = run.fails(within_s=5 + ENDING_S)

    assert "within 5 s" in said
    assert "math_simple_agent" in said


def test_gym_servers_that_die_are_named_at_once(train: Callable[..., Training]) -> None:
    run = train(MANY)
    run.until("generation")
    run.gym().kill()

    said = run.fails(within_s=ENDING_S)

    assert "Gym's servers math_simple_agent, math_with_judge, policy_model running" in said
    assert "found: killed by SIGKILL" in said
