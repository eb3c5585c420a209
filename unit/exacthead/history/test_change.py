"""Change points on synthetic series whose answer is known; the numbers come from fixed seeds."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.history.change import LEAST, changes, noise

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw = Callable[[random.Random], float]


def seeded(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311 - nothing is kept secret with it


def _student(draw: random.Random) -> float:
    """Student's t with three degrees of freedom: heavy tails."""
    return draw.gauss(0, 1) / math.sqrt(sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3)


NOISES: dict[str, Draw] = {
    "normal": lambda draw: 10 + draw.gauss(0, 1),
    "lognormal": lambda draw: math.exp(draw.gauss(0, 0.3)),
    "laplace": lambda draw: 10 + draw.choice((-1, 1)) * draw.expovariate(1),
    "heavy tails": lambda draw: 10 + _student(draw),
    "spikes": lambda draw: 10 + draw.gauss(0, 0.3) + (20 if draw.random() < 0.05 else 0),
    "rounded": lambda draw: round(10 + draw.gauss(0, 0.6)),
}


def series(draw: random.Random, count: int, at: int, shift: float) -> list[float]:
    return [10 + draw.gauss(0, 1) + (shift if index >= at else 0) for index in range(count)]


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("count", [10, 20, 60])
def test_a_series_without_a_change_is_hardly_ever_marked(name: str, count: int) -> None:
    draw = seeded(1)

    marked = sum(bool(changes([NOISES[name](draw) for _ in range(count)])) for _ in range(100))

    # Measured over 150 series each: at most 2 % (rounded values), else below 1.5 %.
    assert marked <= 4


@pytest.mark.parametrize(
    ("shift", "count", "at", "least"), [(3, 60, 30, 0.95), (3, 60, 50, 0.8), (4, 20, 10, 0.7)]
)
def test_a_shift_beyond_the_noise_is_found_where_it_is(
    shift: float, count: int, at: int, least: float
) -> None:
    draw = seeded(2)

    found = [changes(series(draw, count, at, shift)) for _ in range(100)]

    near = sum(len(each) == 1 and abs(each[0].at - at) <= 2 for each in found)
    assert near >= least * 100


def test_a_shift_within_the_noise_is_none() -> None:
    draw = seeded(3)

    assert sum(bool(changes(series(draw, 60, 30, 0.5))) for _ in range(100)) <= 2


def test_the_levels_and_the_shift_are_told() -> None:
    values = [10 + (index % 3 - 1) * 0.3 for index in range(20)]
    values += [value + 5 for value in values]

    (change,) = changes(values)

    assert change.at == 20
    assert (change.before, change.after) == (10.0, 15.0)
    assert change.shift == pytest.approx(5 / noise(values))


def test_two_changes_are_two() -> None:
    values = [1.0, 1.1, 0.9] * 5 + [3.0, 3.1, 2.9] * 5 + [2.0, 2.1, 1.9] * 5

    assert [change.at for change in changes(values)] == [15, 30]


@pytest.mark.parametrize("after", [0.6, 0.4])
def test_an_exact_series_needs_no_noise(after: float) -> None:
    (change,) = changes([0.5] * 8 + [after] * LEAST)

    assert (change.at, change.before, change.after, change.shift) == (8, 0.5, after, None)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0],
        [1.0, 5.0] * 4,
        [2.0] * 40,
        [0.0] * 40,
        [1.0] * 20 + [9.0] + [1.0] * 20,  # one spike
        [1.0] * 20 + [9.0] * (LEAST - 1),  # too short to be a level
        [100.0] * 20 + [101.0] * 20,  # exact, but of no size
    ],
)
def test_these_have_no_change(values: list[float]) -> None:
    assert changes(values) == ()


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=10, max_size=40),
    st.sampled_from([0.5, 2.0, 1024.0]),
)
def test_the_unit_of_a_series_changes_no_place(values: list[float], factor: float) -> None:
    scaled = changes([value * factor for value in values])

    assert [each.at for each in scaled] == [each.at for each in changes(values)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=10, max_size=40))
def test_changes_are_in_order_and_apart(values: list[float]) -> None:
    borders = [0, *(change.at for change in changes(values)), len(values)]

    assert all(b - a >= LEAST for a, b in pairwise(borders))
