"""Which rows a step trains on."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data import Row
from posttrain.dataset import Position, Prompts, content_digest
from posttrain.errors import RecipeError, StackError


def make_rows(count: int) -> list[Row]:
    return [Row(index, {"question": str(index)}) for index in range(count)]


def taken(prompts: Prompts, steps: int) -> list[list[int]]:
    return [[row.index for row in prompts.take()] for _ in range(steps)]


sizes = st.integers(1, 12).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, rows)))
seeds = st.integers(0, 2**32 - 1)


def test_without_a_number_each_step_takes_all_rows_in_their_own_order() -> None:
    prompts = Prompts(make_rows(3), None, shuffle=True, seed=7)
    assert taken(prompts, 2) == [[0, 1, 2], [0, 1, 2]]
    assert prompts.position == Position(epoch=2)


def test_unshuffled_batches_go_through_the_rows_and_on_into_the_next_pass() -> None:
    prompts = Prompts(make_rows(5), 2)
    assert taken(prompts, 5) == [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]
    assert prompts.position == Position(epoch=2)


def test_shuffled_orders_are_the_same_in_every_python() -> None:
    prompts = Prompts(make_rows(6), 3, shuffle=True, seed=1)
    assert taken(prompts, 4) == [[2, 5, 1], [0, 4, 3], [2, 0, 4], [3, 5, 1]]


def test_each_pass_has_an_order_of_its_own_and_each_seed_too() -> None:
    rows = make_rows(50)
    first = taken(Prompts(rows, 50, shuffle=True, seed=1), 3)
    other = taken(Prompts(rows, 50, shuffle=True, seed=2), 3)
    assert len({tuple(order) for order in first + other}) == 6


@settings(deadline=None)
@given(sizes, st.booleans(), seeds, st.integers(1, 30))
def test_every_row_is_taken_once_a_pass_and_never_twice_in_a_batch(
    size: tuple[int, int], shuffle: bool, seed: int, steps: int
) -> None:
    count, per_step = size
    batches = taken(Prompts(make_rows(count), per_step, shuffle=shuffle, seed=seed), steps)
    assert all(len(batch) == per_step == len(set(batch)) for batch in batches)
    stream = [row for batch in batches for row in batch]
    for start in range(0, len(stream), count):
        assert max(Counter(stream[start : start + count]).values()) == 1


@settings(deadline=None)
@given(sizes, st.booleans(), seeds, st.integers(0, 30), st.integers(0, 30))
def test_going_on_from_a_position_gives_what_an_uninterrupted_run_takes(
    size: tuple[int, int], shuffle: bool, seed: int, before: int, after: int
) -> None:
    rows, per_step = make_rows(size[0]), size[1]
    straight = Prompts(rows, per_step, shuffle=shuffle, seed=seed)
    expected = taken(straight, before + after)
    interrupted = Prompts(rows, per_step, shuffle=shuffle, seed=seed)
    taken(interrupted, before)
    state = asdict(interrupted.position)
    resumed = Prompts(rows, per_step, shuffle=shuffle, seed=seed)
    resumed.resume(Position(**state))
    assert taken(resumed, after) == expected[before:]
    assert resumed.position == straight.position


@settings(deadline=None)
@given(sizes, st.integers(0, 30))
def test_passes_count_the_prompts_taken_in_units_of_the_dataset(
    size: tuple[int, int], steps: int
) -> None:
    count, per_step = size
    prompts = Prompts(make_rows(count), per_step, shuffle=True)
    taken(prompts, steps)
    assert prompts.passes == pytest.approx(steps * per_step / count)


def test_a_batch_larger_than_the_dataset_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"3 different prompts .*\n  found: 2 rows to train on"):
        Prompts(make_rows(2), 3)


def test_more_steps_than_the_passes_allow_are_refused_with_the_arithmetic() -> None:
    prompts = Prompts(make_rows(10), 4, epochs=2)
    prompts.check_steps(5)
    with pytest.raises(RecipeError, match="24 prompts, which are 3 passes") as caught:
        prompts.check_steps(6)
    assert "run.steps 5 or fewer" in caught.value.todo
    Prompts(make_rows(10), 4).check_steps(10**6)


@pytest.mark.parametrize(
    "position",
    [
        Position(taken=5),
        Position(taken=-1),
        Position(epoch=-1),
        Position(late=(5,)),
        Position(late=(1, 1)),
        Position(late=(0, 1, 2)),
    ],
)
def test_a_position_that_no_run_over_these_rows_could_have_is_refused(position: Position) -> None:
    with pytest.raises(StackError, match="a dataset of 5 rows, 3 a step"):
        Prompts(make_rows(5), 3).resume(position)


def test_the_digest_depends_on_what_the_rows_say_and_on_their_order() -> None:
    one, two = Row(0, {"a": 1, "b": 2}), Row(1, {"a": 3})
    same = Row(0, {"b": 2, "a": 1})
    assert content_digest([one, two]) == content_digest([same, two])
    others = {content_digest(rows) for rows in ([two, one], [one], [one, two, two], [])}
    assert len(others | {content_digest([one, two])}) == 5


def test_no_pass_begins_that_may_not() -> None:
    prompts = Prompts(make_rows(5), 2, epochs=1)
    assert [row.index for _ in range(2) for row in prompts.take()] == [0, 1, 2, 3]
    with pytest.raises(RecipeError, match=r"1 passes over 5 rows \(data\.epochs\)"):
        prompts.take()
    whole = Prompts(make_rows(4), 2, epochs=1)
    for _ in range(2):
        whole.take()
    with pytest.raises(RecipeError, match="those that were dropped are not in any step"):
        whole.take()
