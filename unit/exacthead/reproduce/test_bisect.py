from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.reproduce.bisect import find_culprits


class Oracle:
    """Fails after any part that holds all of one of the poisonous sets; notes what it is asked."""

    def __init__(self, *poisons: frozenset[int]) -> None:
        self.poisons = poisons
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, part: tuple[int, ...]) -> bool:
        self.asked.append(part)
        return any(poison <= set(part) for poison in self.poisons)


@st.composite
def monotone(draw: st.DrawFn) -> tuple[int, list[frozenset[int]]]:
    """How many tests there are, and one to three sets that poison."""
    size = draw(st.integers(1, 200))
    poison = st.frozensets(st.integers(0, size - 1), min_size=1, max_size=5)
    return size, draw(st.lists(poison, min_size=1, max_size=3))


@given(monotone())
def test_what_is_found_fails_and_no_part_of_it_does(case: tuple[int, list[frozenset[int]]]) -> None:
    size, poisons = case
    oracle = Oracle(*poisons)

    found = find_culprits(range(size), oracle)

    assert oracle(found)
    assert set(found) in poisons
    assert list(found) == sorted(found)
    assert not any(poison < set(found) for poison in poisons)


@given(monotone())
def test_a_few_of_many_are_found_with_few_questions(
    case: tuple[int, list[frozenset[int]]],
) -> None:
    size, poisons = case
    oracle = Oracle(*poisons)

    found = find_culprits(range(size), oracle)

    assert len(oracle.asked) <= len(found) * (math.ceil(math.log2(size)) + 2)


@given(st.integers(2, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_a_single_one_takes_the_logarithm_and_one(case: tuple[int, int]) -> None:
    size, culprit = case
    oracle = Oracle(frozenset({culprit}))

    assert find_culprits(range(size), oracle) == (culprit,)
    assert len(oracle.asked) <= math.ceil(math.log2(size)) + 1


@given(st.integers(1, 12), st.integers())
def test_whatever_the_answers_what_is_found_fails_and_each_of_it_is_needed(
    size: int, seed: int
) -> None:
    # Tests that heal what others poison: any answer to any part, but always the same.
    known = {(): False, tuple(range(size)): True}
    asked = []

    def fails(part: tuple[int, ...]) -> bool:
        asked.append(part)
        return known.setdefault(part, hash((seed, part)) % 2 == 0)

    found = find_culprits(range(size), fails)

    assert known[found]
    assert not any(known[tuple(each for each in found if each != left)] for left in found)
    assert len(asked) == len(set(asked))


def test_a_poison_before_a_healing_test_is_not_taken_for_the_cause() -> None:
    # 1 poisons, 2 heals, 5 poisons again.
    def fails(part: tuple[int, ...]) -> bool:
        state = False
        for each in part:
            state = {1: True, 2: False, 5: True}.get(each, state)
        return state

    assert fails(tuple(range(8)))
    assert find_culprits(range(8), fails) in {(1,), (5,)}


@pytest.mark.parametrize("size", [1, 2])
def test_nothing_is_asked_that_is_known(size: int) -> None:
    oracle = Oracle(frozenset(range(size)))

    assert find_culprits(range(size), oracle) == tuple(range(size))
    assert () not in oracle.asked
    assert tuple(range(size)) not in oracle.asked
