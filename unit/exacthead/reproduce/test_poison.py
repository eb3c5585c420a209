from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.reproduce.poison import Search, choose, reduced
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = (
    ("unit/a.py::test_one", "unit/a.py::test_two"),
    ("unit/b.py::test_one", "unit/b.py::Case::test_three"),
    ("unit/c.py::test_last",),
)
SHARD = Shard(suite="s", number=1, of=1, paths=("unit",), groups=GROUPS, processes=2, retries=2)
A1, A2, B1, B3, LAST = SHARD.nodeids


def search(red: dict[frozenset[str], Kind]) -> tuple[Search, list[list[str]], list[str]]:
    """A search whose last test has the kind of the first of ``red`` that ran with it."""
    runs: list[list[str]] = []
    said: list[str] = []

    def probe(nodeids: Sequence[str], test: str) -> Verdict:
        assert test in nodeids
        runs.append(list(nodeids))
        kinds = (kind for cause, kind in red.items() if cause <= {*nodeids})
        return Verdict(next(kinds, Kind.PASSED), "the reason")

    return Search(SHARD.nodeids, probe, said.append), runs, said


def test_the_tests_that_poison_are_found_in_their_order() -> None:
    searching, runs, said = search({frozenset({B1, A2}): Kind.FAILED})

    found = searching.run(LAST)

    assert found.culprits == (A2, B1)
    assert found.kind is Kind.FAILED
    assert found.words == f"failed after {A2} and {B1}, passed alone"
    assert found.probes == len(runs) == len(said)
    assert runs[0] == [LAST]
    assert runs[1] == [A1, A2, B1, B3, LAST]
    assert said[:2] == ["probe 1: 0 of 4 others: passed", "probe 2: 4 of 4 others: failed"]


def test_another_kind_of_end_is_not_the_one_that_is_looked_for() -> None:
    both, one = frozenset({A1, B3}), frozenset({A1})
    searching, _, _ = search({both: Kind.CRASHED, one: Kind.FAILED})

    assert searching.run(LAST).culprits == (A1, B3)


def test_a_test_that_fails_alone_is_broken() -> None:
    searching, runs, _ = search({frozenset(): Kind.TIMED_OUT})

    found = searching.run(LAST)

    assert (found.kind, found.culprits) == (Kind.TIMED_OUT, ())
    assert found.words == "timed_out alone too: broken, not poisoned"
    assert runs == [[LAST]]


def test_a_test_that_fails_in_no_order_may_be_flaky() -> None:
    searching, runs, _ = search({})

    found = searching.run(B1)

    assert (found.kind, found.culprits) == (Kind.PASSED, ())
    assert found.words == "passed in this order too: flaky?"
    assert runs == [[B1], [A1, A2, B1], [A1, A2, B1, B3, LAST]]


def test_a_test_that_cannot_be_run_is_neither_poisoned_nor_well() -> None:
    searching, runs, _ = search({frozenset(): Kind.NOT_RUN})

    found = searching.run(LAST)

    assert (found.kind, found.culprits) == (Kind.NOT_RUN, ())
    assert "can its file be collected?" in found.words
    assert runs == [[LAST]]


def test_an_order_that_does_not_reach_the_test_says_why() -> None:
    searching, runs, _ = search({frozenset({A1, A2}): Kind.NOT_RUN})

    found = searching.run(B1)

    assert (found.kind, found.culprits) == (Kind.NOT_RUN, ())
    assert found.words == "was not run in this order: the reason"
    assert runs == [[B1], [A1, A2, B1]]


def test_of_many_tests_only_the_nearest_are_named() -> None:
    names = tuple(f"unit/a.py::test_{number:03}" for number in range(400))
    shard = Shard(suite="s", number=1, of=1, paths=("unit",), groups=(names,))

    with pytest.raises(HarnessError) as caught:
        choose(shard, "nope")

    assert caught.value.todo.startswith("the nearest of 400: test_")
    assert caught.value.todo.count(",") == 4


def test_of_many_tests_that_end_so_a_few_are_named() -> None:
    names = tuple(f"unit/{number}.py::test_a" for number in range(400))
    shard = Shard(suite="s", number=1, of=1, paths=("unit",), groups=(names,))

    with pytest.raises(HarnessError) as caught:
        choose(shard, "test_a")

    assert caught.value.found == "400 tests end so"
    assert caught.value.todo.endswith("unit/4.py::test_a and 395 more")


def test_the_import_of_a_later_file_can_poison() -> None:
    searching, _, _ = search({frozenset({LAST}): Kind.FAILED})

    assert searching.run(B1).culprits == (LAST,)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (A2, A2),
        ("c.py::test_last", LAST),
        ("test_last", LAST),
        ("Case::test_three", B3),
        ("test_three", B3),
    ],
)
def test_a_test_is_named_by_an_end_of_its_node_id(asked: str, found: str) -> None:
    assert choose(SHARD, asked) == found


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("test_one", f"2 tests end so.*{A1}, {B1}"),
        ("last", "no such test"),
        ("test_lats", "did you mean 'test_last'"),
        ("unit/a.py::test_tow", f"did you mean '{A2}'"),
    ],
)
def test_a_name_that_is_no_test_s_or_several_is_refused(asked: str, words: str) -> None:
    with pytest.raises(HarnessError, match=f"(?s){words}"):
        choose(SHARD, asked)


def test_a_reduced_shard_keeps_order_and_groups_and_runs_each_test_once() -> None:
    shard = reduced(SHARD, [LAST, B3, A1])

    assert shard.groups == ((A1,), (B3,), (LAST,))
    assert (shard.processes, shard.retries, shard.coverage) == (1, 0, False)
