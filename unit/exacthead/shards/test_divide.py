from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.shards.divide import Division, plan_shards
from exacthead.shards.durations import Durations
from exacthead.shards.nodeid import file_of

HARNESS = Path(__file__).parents[3] / "ci"
NODE = st.builds(
    "{}.py::{}{}".format,
    st.sampled_from(["unit/a", "unit/b", "c"]),
    st.sampled_from(["t", "A::t", "B::t"]),
    st.sampled_from(["", *(f"[{number}]" for number in range(6))]),
)
TIMES = st.lists(st.floats(0, 100), min_size=1, max_size=3).map(tuple)


def placed(division: Division) -> list[str]:
    return [n for shard in division.shards for group in shard.groups for n in group]


@given(
    st.lists(NODE, unique=True), st.dictionaries(NODE, TIMES), st.integers(1, 9), st.integers(1, 3)
)
def test_every_test_is_in_exactly_one_shard_and_within_a_module_in_pytests_order(
    nodeids: list[str], seconds: dict[str, tuple[float, ...]], shards: int, processes: int
) -> None:
    division = plan_shards(nodeids, Durations(seconds), shards, processes)

    assert len(division.shards) == shards
    assert sorted(placed(division)) == sorted(nodeids)
    for shard in division.shards:
        for group in shard.groups:
            assert len({file_of(nodeid) for nodeid in group}) == 1
            assert list(group) == sorted(group, key=nodeids.index)


@given(st.dictionaries(NODE, TIMES, min_size=1), st.randoms(use_true_random=False))
def test_the_order_of_the_history_does_not_matter(
    seconds: dict[str, tuple[float, ...]], chance: object
) -> None:
    nodeids = sorted(seconds)[1:]
    shuffled = list(seconds.items())
    chance.shuffle(shuffled)  # type: ignore[attr-defined]

    assert plan_shards(nodeids, Durations(dict(shuffled)), 3) == plan_shards(
        nodeids, Durations(seconds), 3
    )


def test_another_hash_seed_gives_the_same_division_and_notes() -> None:
    history = {f"ci/unit/{f}.py::t[{n}]": [n / 7, n / 5] for f in "abcdefg" for n in range(9)}
    nodeids = [f"unit/{f}.py::t[{n}]" for f in "abcdeh" for n in range(12)]
    script = """
import dataclasses, json, sys
from exacthead.shards.divide import plan_shards
from exacthead.shards.durations import Durations
history, nodeids = json.load(sys.stdin)
seconds = {nodeid: tuple(times) for nodeid, times in history.items()}
print(json.dumps(dataclasses.asdict(plan_shards(nodeids, Durations(seconds), 4, 2))))
"""

    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps([history, nodeids]),
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HARNESS)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout

    first = run("1")
    assert first == run("4242")
    seconds = {nodeid: tuple(times) for nodeid, times in history.items()}
    here = plan_shards(nodeids, Durations(seconds), 4, 2)
    assert json.loads(first)["report"] == list(here.report)
    assert [shard["seconds"] for shard in json.loads(first)["shards"]] == [
        shard.seconds for shard in here.shards
    ]


def test_more_shards_than_groups_are_empty_by_plan_and_said_to_be() -> None:
    division = plan_shards(["a.py::t", "b.py::t"], Durations({}), 4)

    assert [len(shard.groups) for shard in division.shards] == [1, 1, 0, 0]
    assert [shard.seconds for shard in division.shards] == [1.0, 1.0, 0.0, 0.0]
    assert "shards: empty by plan, since there are no more groups: 3, 4" in division.report


def test_no_tests_are_empty_shards_too() -> None:
    assert [shard.groups for shard in plan_shards([], Durations({}), 2).shards] == [(), ()]


def test_the_expected_seconds_of_a_shard_count_its_processes() -> None:
    history = Durations(
        {
            f"{name}.py::t": (float(n), float(n))
            for name, n in zip("abcd", (4, 3, 3, 2), strict=True)
        }
    )
    nodeids = list(history.seconds)

    assert [s.seconds for s in plan_shards(nodeids, history, 1).shards] == [12.0]
    assert [s.seconds for s in plan_shards(nodeids, history, 1, 2).shards] == [6.0]
    assert [s.seconds for s in plan_shards(nodeids, history, 2).shards] == [6.0, 6.0]


def test_without_any_history_nothing_is_said_of_noise() -> None:
    nodeids = ["unit/a.py::test_one", "unit/a.py::test_two"]
    words = "durations: a noise of"

    none = plan_shards(nodeids, Durations({"elsewhere.py::test_x": (1.0,)}), 1).report
    some = plan_shards(nodeids, Durations({nodeids[0]: (1.0,)}), 1).report

    assert not [line for line in none if line.startswith(words)]
    assert [line for line in some if line.startswith(words)]


def test_the_report_says_what_became_of_every_recorded_duration() -> None:
    history = Durations(
        {
            "unit/a.py::t": (1.0, 1.0),
            "unit/a.py::gone": (1.0,),
            "ci/unit/b.py::t": (1.0,),
            "ci/unit/b.py::u": (1.0,),
            "c.py::t": (1.0,),
            "x.py::t": (1.0,),
            "y/old.py::t": (1.0,),
        }
    )
    nodeids = ["unit/a.py::t", "unit/a.py::new", "unit/b.py::t", "unit/b.py::u", "unit/c.py::t"]
    nodeids += ["p/x.py::t", "q/x.py::t"]

    report = plan_shards(nodeids, history, 1).report

    shared = "could be of several tests, or share one, and are not used"
    guessed = "1 as the median of their file, 2 as the median of the suite"
    assert report[:7] == (
        "durations: 4 of 7 tests are recorded, 1 as they are",
        "durations: 1 were recorded without 'unit/' and are used",
        "durations: 2 were recorded below 'ci/' and are used",
        f"durations: 1 recorded ones {shared}: x.py::t",
        "durations: 1 recorded tests are gone from their files: unit/a.py::gone",
        "durations: 1 recorded tests lie in 1 files that are not collected here",
        f"durations: 3 tests are unknown: {guessed}",
    )


def test_durations_of_another_root_divide_as_those_of_this_one() -> None:
    here = {f"unit/{name}.py::t": (2.0**n,) * 2 for n, name in enumerate("abcdef")}
    there = {f"ci/{nodeid}": times for nodeid, times in here.items()}

    assert (
        plan_shards(list(here), Durations(there), 3).shards
        == plan_shards(list(here), Durations(here), 3).shards
    )


def test_a_module_that_is_cut_is_named() -> None:
    history = Durations({f"a.py::t{number}": (1.0, 1.0) for number in range(8)})

    division = plan_shards(list(history.seconds), history, 4)

    assert "modules: 1 take more than 1 of what a process gets and are cut: a.py into 4" in (
        division.report
    )
    assert [shard.seconds for shard in division.shards] == [2.0] * 4


def test_a_node_id_that_is_there_twice_is_refused_by_name() -> None:
    with pytest.raises(HarnessError, match=r"twice: a\.py::t"):
        plan_shards(["a.py::t", "b.py::t", "a.py::t"], Durations({}), 2)


@pytest.mark.parametrize(("shards", "processes"), [(0, 1), (-1, 1), (1, 0)])
def test_less_than_one_shard_or_process_is_refused(shards: int, processes: int) -> None:
    with pytest.raises(HarnessError, match="give 1 or more"):
        plan_shards(["a.py::t"], Durations({}), shards, processes)
