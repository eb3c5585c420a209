from __future__ import annotations

import math
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.shards.balance import balance
from exacthead.shards.estimate import Estimates
from exacthead.shards.group import Group
from exacthead.shards.partition import partition
from exacthead.shards.scenarios import SCENARIOS, scenarios
from exacthead.shards.settle import settle


def groups(times: list[int]) -> list[Group]:
    return [Group((f"{number:02}.py::t",), time) for number, time in enumerate(times)]


def ends(division: list[list[Group]], spread: dict[str, float]) -> list[int]:
    """The longest shard's end in each scenario."""
    micros = {g.nodeids[0]: g.micros for shard in division for g in shard}
    shards = [[scenarios(g, micros, spread) for g in shard] for shard in division]
    sums = [[sum(times[n] for times in shard) for n in range(SCENARIOS)] for shard in shards]
    return [max(shard[n] for shard in sums) for n in range(SCENARIOS)]


def test_a_test_that_is_sure_takes_the_same_in_every_scenario() -> None:
    (group,) = groups([1234])

    assert scenarios(group, {"00.py::t": 1234}, {"00.py::t": 0.0}) == [1234] * SCENARIOS


def test_scenarios_are_the_log_normal_distribution_about_the_estimate() -> None:
    (group,) = groups([10**9])

    times = scenarios(group, {"00.py::t": 10**9}, {"00.py::t": 0.5})

    logs = [math.log(time / 10**9) for time in times]
    assert median(times) == pytest.approx(10**9, rel=0.04)
    assert fmean(logs) == pytest.approx(0, abs=1e-3)
    assert math.sqrt(fmean(log**2 for log in logs)) == pytest.approx(0.5, rel=0.04)


def test_two_tests_are_not_long_together() -> None:
    micros = {f"{number}.py::t": 10**6 for number in range(20)}
    spread = dict.fromkeys(micros, 0.5)
    logs = [
        [math.log(time / 10**6) / 0.5 for time in scenarios(Group((n,), 10**6), micros, spread)]
        for n in micros
    ]

    together = [
        fmean(a * b for a, b in zip(logs[i], logs[j], strict=True))
        for i in range(20)
        for j in range(i)
    ]
    assert abs(fmean(together)) < 0.05
    assert max(map(abs, together)) < 0.7


def test_a_group_takes_what_its_tests_take() -> None:
    micros = {"a.py::t": 10**6, "a.py::u": 3 * 10**6}
    spread = {"a.py::t": 0.5, "a.py::u": 0.3}
    alone = [scenarios(Group((nodeid,), micros[nodeid]), micros, spread) for nodeid in micros]

    both = scenarios(Group(("a.py::t", "a.py::u"), 4 * 10**6), micros, spread)

    assert both == [t + u for t, u in zip(*alone, strict=True)]


def test_beside_a_giant_that_may_be_longer_less_is_planned_than_beside_one_that_is_sure() -> None:
    times = [1000, *[50] * 40]
    division = partition(groups(times), 2, 1)
    micros = {f"{number:02}.py::t": time for number, time in enumerate(times)}
    spread = dict.fromkeys(micros, 0.0)

    def beside(uncertain: float, *, others: float = 0.0) -> int:
        known = {**dict.fromkeys(spread, others), "00.py::t": uncertain}
        settled = settle(division, micros, known)
        (giants,) = (shard for shard in settled if shard[0].nodeids == ("00.py::t",))
        return sum(group.micros for group in giants) - 1000

    assert beside(0.0) == 500
    # Balanced by the median of both, whichever is longer.
    assert 450 <= beside(0.4) <= 550
    # All that is short may be longer too, by half on average; then the giant gets more of it.
    assert beside(0.4, others=0.9) > 550


@given(
    st.lists(st.integers(1, 50_000), min_size=1, max_size=12),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_settling_never_makes_the_expected_end_later_and_keeps_every_group(
    times: list[int], shards: int, uncertain: float
) -> None:
    division = partition(groups(times), shards, 1)
    spread = {f"{number:02}.py::t": uncertain for number in range(len(times))}
    micros = {f"{number:02}.py::t": time for number, time in enumerate(times)}

    settled = settle(division, micros, spread)

    assert len(settled) == shards
    assert sorted(g.nodeids for shard in settled for g in shard) == sorted(micros_of(times))
    assert sum(ends(settled, spread)) <= sum(ends(division, spread))
    assert all(shard == sorted(shard, key=lambda each: each.order) for shard in settled)


def micros_of(times: list[int]) -> list[tuple[str]]:
    return [(f"{number:02}.py::t",) for number in range(len(times))]


def test_a_division_is_settled_only_where_an_uncertain_test_dominates() -> None:
    micros = {"giant.py::t": 1000, **{f"{number:02}.py::t": 50 for number in range(40)}}
    spread = {**dict.fromkeys(micros, 0.9), "giant.py::t": 0.4}

    def estimates(dominating: set[str], spread: dict[str, float]) -> Estimates:
        return Estimates(micros, {}, spread, frozenset(dominating), 0, 0, 0, noise=0.5, sure=False)

    def load(found: Estimates, shards: int, processes: int = 1) -> int:
        division = balance(found, shards, processes).shards
        (giants,) = (s for s in division if any("giant.py::t" in g.nodeids for g in s))
        return sum(group.micros for group in giants)

    giant = estimates({"giant.py::t"}, spread)
    assert load(giant, 2) > 1500
    for found in (estimates(set(), spread), estimates({"giant.py::t"}, {})):
        assert load(found, 2) == 1500
    # Processes that take one group after the other need no such forethought.
    assert load(giant, 1, 2) == 3000
