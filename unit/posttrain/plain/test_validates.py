from __future__ import annotations

import pytest

from posttrain.controller.learner import validates


@pytest.mark.parametrize(
    ("steps", "every", "validated"),
    [
        (1, 1, [1]),
        (1, 5, [1]),
        (4, 1, [1, 2, 3, 4]),
        (12, 5, [1, 5, 10, 12]),
        (10, 5, [1, 5, 10]),
        (3, 100, [1, 3]),
    ],
)
def test_the_first_the_last_and_every_nth_step_validate(
    steps: int, every: int, validated: list[int]
) -> None:
    assert [step for step in range(1, steps + 1) if validates(step, steps, every)] == validated
