from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.plan import DRIVER
from exacthead.shards.durations import Durations
from exacthead.suite_items import (
    Found,
    pytest_arguments,
    settled_item,
    shard_items,
)
from exacthead.tables import Suite
from exacthead.units.absent import Absent
from exacthead.units.collect import Collected
from exacthead.verdict import Kind, Verdict
from exacthead.wish import Wish, read_arguments, read_shard_option

SUITE = Suite(
    paths=("unit/a",),
    worker="w",
    roles={"policy": "p"},
    markers="not slow",
    arguments=("--flag",),
    environment={"X": "1"},
    timeout_s=30,
    test_timeout_s=5,
)
TESTS = tuple(f"unit/a/test_{file}.py::test_{n}" for file in "abcd" for n in range(3))
FOUND = Found(Collected(TESTS), TESTS)


def test_a_whole_suite_is_one_item_with_all_its_tests() -> None:
    (item,) = shard_items("a", SUITE, FOUND, Durations(), Wish())

    assert item.id == "unit.a"
    assert item.command == DRIVER
    assert item.workers == {"suite": "w", "policy": "p"}
    assert item.environment == {"X": "1"}
    assert item.timeout_s == 30
    assert item.shard is not None
    assert sorted(item.shard.nodeids) == sorted(TESTS)
    assert item.shard.arguments == ("-mnot slow", "--flag")
    assert item.shard.test_timeout_s == 5
    assert item.settled is None


@given(st.integers(1, 20), st.integers(1, 3))
def test_every_test_is_in_exactly_one_shard_and_each_shard_is_that_of_the_whole(
    count: int, processes: int
) -> None:
    wish = Wish(shards=count, processes=processes)
    items = shard_items("a", SUITE, FOUND, Durations(), wish)

    found = [nodeid for item in items if item.shard for nodeid in item.shard.nodeids]
    assert sorted(found) == sorted(TESTS)
    assert [item.id for item in items][:1] == ["unit.a" if count == 1 else f"unit.a.1of{count}"]
    for number, item in enumerate(items, 1):
        alone = replace(wish, shards=None, shard=(number, count))
        (single,) = shard_items("a", SUITE, FOUND, Durations(), alone)
        assert single.shard == item.shard


def test_more_shards_than_groups_leave_some_empty_by_plan_and_not_required() -> None:
    items = shard_items(
        "a", SUITE, Found(Collected(TESTS[:1]), TESTS[:1]), Durations(), Wish(shards=3, strict=True)
    )

    empty = [item for item in items if item.shard and not item.shard.nodeids]
    assert len(empty) == 2
    for item in empty:
        assert item.settled == Verdict(Kind.SKIPPED, "empty by plan: 1 tests over 3 shards")
        assert not item.required


@pytest.mark.parametrize(
    ("kind", "strict", "required"),
    [
        (Kind.SKIPPED, False, False),
        (Kind.SKIPPED, True, True),
        (Kind.NOT_RUN, False, True),
        (Kind.FAILED, False, True),
    ],
)
def test_only_what_is_skipped_may_be_missing_and_not_in_a_strict_run(
    kind: Kind, strict: bool, required: bool
) -> None:
    item = settled_item("a", SUITE, Wish(strict=strict), Verdict(kind, "so"))

    assert item.required is required
    assert item.settled == Verdict(kind, "so")


def test_a_strict_run_accepts_skips_only_of_a_suite_that_may() -> None:
    def may_skip(suite: Suite, wish: Wish) -> bool:
        (item,) = shard_items("a", suite, FOUND, Durations(), wish)
        assert item.shard is not None
        return item.shard.may_skip

    lenient = SUITE.model_copy(update={"may_skip": True})
    assert may_skip(SUITE, Wish())
    assert not may_skip(SUITE, Wish(strict=True))
    assert may_skip(lenient, Wish(strict=True))


def test_what_the_caller_gives_pytest_comes_last_and_is_in_the_item() -> None:
    wish = Wish(arguments=read_arguments(["-k 'a b'", "--opt-in"]))
    (item,) = shard_items("a", SUITE, FOUND, Durations(), wish)

    assert item.shard is not None
    assert item.shard.arguments == ("-mnot slow", "--flag", "-k", "a b", "--opt-in")
    assert pytest_arguments(SUITE, wish) == item.shard.arguments


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="no part of a count"):
        read_shard_option(text)


def test_a_shard_is_a_number_and_a_count() -> None:
    assert read_shard_option("2/4") == (2, 4)


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ({"retries": 3}, "needs more tries"),
        ({"retries": -1}, "needs more tries"),
        ({"shards": 0}, "not a number of parts"),
        ({"processes": 0}, "not a number of parts"),
        ({"shards": 10_001}, "from 1 to 10000"),
        ({"shard": (1, 10_001)}, "at most 10000"),
        ({"shards": 2, "shard": (1, 2)}, "both"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, int], found: str) -> None:
    with pytest.raises(HarnessError, match=found):
        Wish(**wish)  # type: ignore[arg-type] # values of several types


def test_an_open_quotation_is_refused() -> None:
    with pytest.raises(HarnessError, match="No closing quotation"):
        read_arguments(["-k 'a"])


def test_files_without_tests_are_planned_and_odd_ids_are_said() -> None:
    collected = Collected(
        nodeids=TESTS,
        errors={"unit/a/test_bad.py": "SyntaxError"},
        skipped={"unit/a/test_gone.py": "no browser"},
        duplicates=(TESTS[0],),
        unstable=("t[<object at 0x7f00>]",),
        deselected=4,
    )

    gone = Absent(("no test in test_x.py",), ("left out by --ignore: y",))
    found = Found(collected, collected.planned, absent=gone)

    (item,) = shard_items("a", SUITE, found, Durations(), Wish())

    assert item.shard is not None
    assert {"unit/a/test_bad.py", "unit/a/test_gone.py"} < set(item.shard.nodeids)
    assert item.shard.faults == (f"two tests are called {TESTS[0]}", "no test in test_x.py")
    assert "left out by --ignore: y" in item.notes
    assert "4 tests were left out by markers or arguments" in item.notes
    assert any("0x7f00" in note for note in item.notes)


def test_each_shard_knows_the_tests_of_its_files_that_others_run_or_nobody() -> None:
    chosen = TESTS[1:]
    items = shard_items("a", SUITE, Found(FOUND.collected, chosen), Durations(), Wish(shards=8))

    shards = [item.shard for item in items if item.shard]
    for shard in shards:
        files = {nodeid.partition("::")[0] for nodeid in shard.nodeids}
        expected = {test for test in TESTS if test.partition("::")[0] in files}
        assert {*shard.nodeids, *shard.elsewhere} == expected
        assert not {*shard.nodeids} & {*shard.elsewhere}
    assert any(TESTS[0] in shard.elsewhere for shard in shards)


def test_a_suite_that_no_change_reaches_is_empty_by_plan_and_says_so() -> None:
    found = Found(Collected(TESTS), (), ("nothing changed",))

    (item,) = shard_items("a", SUITE, found, Durations(), Wish(strict=True))

    assert not item.required
    assert item.settled is not None
    assert item.settled.reason == (
        "empty by plan: 0 tests over 1 shards, 12 left out by what changed"
    )
    assert "nothing changed" in item.notes


def test_an_impact_run_has_an_item_for_each_file() -> None:
    items = shard_items("a", SUITE, FOUND, Durations(), Wish(contexts=True, processes=1))

    groups = [item.shard.groups for item in items if item.shard]
    assert [[test.partition("::")[0] for test in group[0]] for group in groups] == [
        [f"unit/a/test_{file}.py"] * 3 for file in "abcd"
    ]
    assert all(item.shard.contexts and item.shard.coverage for item in items if item.shard)
