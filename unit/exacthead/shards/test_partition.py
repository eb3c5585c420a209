from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from exacthead.shards.group import Group
from exacthead.shards.partition import makespan, partition
from exacthead.shards.stealing import wall

TIMES = st.lists(st.integers(1, 50), max_size=12)


def groups(times: list[int]) -> list[Group]:
    return [Group((f"{number:02}.py::t",), time) for number, time in enumerate(times)]


def divided(times: list[int], shards: int, processes: int = 1) -> list[list[int]]:
    division = partition(groups(times), shards, processes)
    return [[group.micros for group in shard] for shard in division]


def test_the_longest_group_goes_first_and_each_next_one_where_time_is_left() -> None:
    assert divided([2, 7, 3, 5, 4], 2) == [[7, 3], [5, 4, 2]]


def test_equal_groups_are_divided_in_the_order_of_their_node_ids() -> None:
    division = partition(reversed(groups([1] * 5)), 2, 1)

    assert [[group.nodeids[0][:2] for group in shard] for shard in division] == [
        ["00", "02", "04"],
        ["01", "03"],
    ]


def test_shards_that_no_group_is_left_for_are_empty() -> None:
    assert divided([3, 1], 4) == [[3], [1], [], []]
    assert divided([], 2) == [[], []]


def test_every_shard_gets_a_group_before_its_second_process_gets_one() -> None:
    assert divided([4, 4, 4], 3, processes=2) == [[4], [4], [4]]


def test_processes_take_the_next_group_as_they_get_free() -> None:
    assert wall([5, 3, 3, 1], 1) == 12
    assert wall([5, 3, 3, 1], 2) == 6
    assert wall([5, 3, 3, 1], 4) == 5
    assert wall([], 3) == 0


@given(TIMES, st.integers(1, 5), st.integers(1, 3))
def test_every_group_is_in_exactly_one_shard_longest_first(
    times: list[int], shards: int, processes: int
) -> None:
    division = partition(groups(times), shards, processes)

    assert len(division) == shards
    assert sorted(g.nodeids for shard in division for g in shard) == [
        g.nodeids for g in groups(times)
    ]
    for shard in division:
        assert [g.order for g in shard] == sorted(g.order for g in shard)


@given(TIMES, st.integers(1, 5), st.integers(1, 3))
def test_the_makespan_stays_within_the_bounds_of_list_scheduling(
    times: list[int], shards: int, processes: int
) -> None:
    slots = shards * processes

    end = makespan(partition(groups(times), shards, processes), processes)

    longest = max(times, default=0)
    assert end >= longest
    assert sum(times) <= slots * end <= sum(times) + longest * (slots - 1)


@given(st.lists(st.integers(1, 30), max_size=6), st.integers(1, 3))
def test_the_makespan_is_within_grahams_bound_of_the_best(times: list[int], shards: int) -> None:
    best = min(
        max(sum(t for t, to in zip(times, homes, strict=True) if to == s) for s in range(shards))
        for homes in product(range(shards), repeat=len(times))
    )

    end = makespan(partition(groups(times), shards, 1), 1)
    assert best <= end
    assert 3 * shards * end <= (4 * shards - 1) * best


@given(TIMES, st.integers(1, 4), st.integers(1, 3))
def test_a_shards_processes_meet_the_times_that_the_division_counted_with(
    times: list[int], shards: int, processes: int
) -> None:
    # The same as one shard of all processes: longest-first is list scheduling.
    division = partition(groups(times), shards, processes)

    together = wall(sorted(times, reverse=True), shards * processes)
    assert makespan(division, processes) == together


@given(TIMES, st.integers(1, 4), st.integers(2, 50))
def test_times_in_another_unit_give_the_same_division(
    times: list[int], shards: int, factor: int
) -> None:
    stretched = divided([time * factor for time in times], shards)

    assert stretched == [[t * factor for t in shard] for shard in divided(times, shards)]


@given(st.permutations(groups([5, 5, 3, 3, 3, 1, 1])), st.integers(1, 4))
def test_the_order_in_which_groups_come_does_not_matter(given_: list[Group], shards: int) -> None:
    assert partition(given_, shards, 1) == partition(sorted(given_, key=str), shards, 1)
