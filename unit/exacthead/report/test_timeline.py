from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.report.model import Item
from exacthead.report.timeline import balances, gantt

ITEM = Item("unit.a.1of2", "suite", "passed", "", True, 10.0, "items/x", suite="a")  # noqa: FBT003


def items(*seconds: float) -> list[Item]:
    return [replace(ITEM, id=f"unit.a.{n}", seconds=each) for n, each in enumerate(seconds)]


def test_the_bars_stand_where_their_items_ran() -> None:
    first = replace(ITEM, id="first", started=100.0, seconds=30.0)
    second = replace(ITEM, id="second", started=120.0, seconds=80.0)
    found = gantt([second, first, replace(ITEM, id="unknown")])
    assert [(row.name, row.start, row.x, row.width) for row in found.rows] == [
        ("first", 0.0, 0.0, 30.0),
        ("second", 20.0, 20.0, 80.0),
    ]
    assert found.seconds == 100.0
    assert found.words == "1 without a known start"


def test_items_without_any_length_can_be_drawn() -> None:
    found = gantt([replace(ITEM, started=5.0, seconds=0.0)])
    assert (found.rows[0].x, found.rows[0].width) == (0.0, 0.4)


@pytest.mark.parametrize(
    ("longest_test", "bound", "ratio"),
    [({}, 20.0, 1.5), ({"unit.a.0": 25.0}, 25.0, 1.2), ({"unit.a.1": 99.0}, 30.0, 1.0)],
)
def test_the_bound_is_the_mean_or_the_longest_test(
    longest_test: dict[str, float], bound: float, ratio: float
) -> None:
    (found,) = balances(items(30.0, 20.0, 10.0), longest_test)
    assert (found.longest, found.bound, found.ratio, found.shards) == (30.0, bound, ratio, 3)
    assert found.bound_share == pytest.approx(100 * bound / 30, abs=1e-3)


def test_a_suite_of_one_shard_has_no_balance() -> None:
    assert balances([ITEM], {}) == ()


@given(st.lists(st.floats(0.001, 1e5), min_size=2), st.floats(0, 1e6))
def test_no_balance_is_better_than_its_bound(seconds: list[float], test: float) -> None:
    (found,) = balances(items(*seconds), {"unit.a.0": test})
    assert found.ratio >= 1 - 1e-9
    assert 0 < found.bound_share <= 100.001
