from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from exacthead.shards.balance import EVEN, FINEST, balance
from exacthead.shards.estimate import Estimates
from exacthead.shards.group import group
from exacthead.shards.partition import makespan, partition


def module(name: str, tests: int, micros: int) -> dict[str, int]:
    return {f"{name}.py::t{number:02}": micros for number in range(tests)}


def sure(micros: dict[str, int], surprises: dict[str, int] | None = None) -> Estimates:
    return Estimates(micros, surprises or {}, {}, frozenset(), 0, 0, 0, noise=0.0, sure=True)


def ids(estimates: Estimates, shards: int, processes: int = 1) -> list[list[int]]:
    balanced = balance(estimates, shards, processes)
    return [[len(group.nodeids) for group in shard] for shard in balanced.shards]


def test_modules_that_fit_stay_whole() -> None:
    micros = {**module("a", 4, 10), **module("b", 4, 10), **module("c", 4, 10)}

    assert ids(sure(micros), 3) == [[4], [4], [4]]


def test_an_oversized_module_is_cut_and_the_others_stay_whole() -> None:
    micros = {**module("a", 12, 10), **module("b", 2, 10), **module("c", 2, 10)}

    assert sorted(size for shard in ids(sure(micros), 2) for size in shard) == [2, 2, 4, 8]


def test_modules_are_cut_finer_only_where_whole_ones_are_uneven() -> None:
    # Three of 8 over two shards: 16 and 8 whole, 12 and 12 cut.
    micros = {**module("a", 8, 10), **module("b", 8, 10), **module("c", 8, 10)}

    balanced = balance(sure(micros), 2, 1)

    assert [sum(len(g.nodeids) for g in shard) for shard in balanced.shards] == [12, 12]
    assert balanced.share == 0.5


def test_cutting_that_gains_a_hundredth_is_not_done() -> None:
    # Whole 1100 and 1000, cut 1085 and 1015: neither is even, and they are nearly the same.
    micros = {"a.py::t": 1000, "b.py::t": 1000, "c.py::t": 85, "c.py::u": 15}

    assert ids(sure(micros), 2) == [[1, 2], [1]]
    # Cut in the middle it is 1050 and 1050.
    assert ids(sure({**micros, "c.py::t": 50, "c.py::u": 50}), 2) == [[1, 1], [1, 1]]


def test_cutting_that_gains_nothing_is_not_done() -> None:
    micros = {"a.py::giant": 1000, **module("b", 2, 10), **module("c", 2, 10)}

    assert ids(sure(micros), 2) == [[1], [2, 2]]


def test_what_is_not_sure_is_cut_finer_where_that_can_help() -> None:
    micros = module("a", 64, 1000)
    unsure = replace(sure(micros), sure=False)

    assert ids(sure(micros), 4) == [[16]] * 4
    assert ids(unsure, 4) == [[8, 8]] * 4
    assert ids(unsure, 2, processes=2) == [[1] * 32] * 2
    assert ids(unsure, 1) == ids(sure(micros), 1) == [[64]]


def test_what_may_turn_out_long_is_handed_out_first_to_processes_that_share_the_work() -> None:
    micros = {"a.py::t": 9, "b.py::new": 2, "c.py::t": 9}
    estimates = sure(micros, {"b.py::new": 8})

    def order(processes: int) -> list[str]:
        balanced = balance(estimates, 1, processes)
        return [group.nodeids[0] for group in balanced.shards[0]]

    assert order(2) == ["b.py::new", "a.py::t", "c.py::t"]
    assert order(1) == ["a.py::t", "c.py::t", "b.py::new"]


def test_one_process_gets_every_module_whole() -> None:
    micros = {**module("a", 12, 10), **module("b", 2, 10)}

    assert ids(sure(micros), 1) == [[12, 2]]


@given(
    st.dictionaries(
        st.builds("{}.py::t{}".format, st.sampled_from("abcde"), st.integers(0, 20)),
        st.integers(1, 1000),
        min_size=1,
    ),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_the_division_is_even_or_no_finer_cut_would_make_it_much_shorter(
    micros: dict[str, int], shards: int, processes: int
) -> None:
    balanced = balance(sure(micros), shards, processes)

    end = makespan(balanced.shards, processes)
    least = max(sum(micros.values()) / (shards * processes), *micros.values())
    limit = int(FINEST * max(-(-sum(micros.values()) // (shards * processes)), *micros.values()))
    finest = makespan(
        partition(group(list(micros), micros, limit, {}), shards, processes), processes
    )
    assert least <= end
    assert end <= EVEN * (least + 1) or end <= EVEN * finest
