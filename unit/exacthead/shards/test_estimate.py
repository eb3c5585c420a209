from __future__ import annotations

import math
import random
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.shards.estimate import DOMINATING, DRIFT, estimate, shrink
from exacthead.shards.nodeid import file_of


def seconds(nodeids: list[str], recorded: dict[str, tuple[float, ...]]) -> dict[str, float]:
    return {n: micros / 1e6 for n, micros in estimate(nodeids, recorded).micros.items()}


def test_measurements_that_agree_are_taken_as_they_are() -> None:
    recorded = {"a.py::t": (0.25, 0.25), "a.py::u": (8.0, 8.0), "b.py::t": (0.004,)}

    assert seconds(list(recorded), recorded) == {"a.py::t": 0.25, "a.py::u": 8.0, "b.py::t": 0.004}
    assert estimate(list(recorded), recorded).sure


def test_single_measurements_are_taken_as_they_are_but_are_not_sure() -> None:
    recorded = {"a.py::t": (0.25,), "a.py::u": (8.0,)}

    assert seconds(list(recorded), recorded) == {"a.py::t": 0.25, "a.py::u": 8.0}
    assert not estimate(list(recorded), recorded).sure


def test_an_unknown_test_gets_the_median_of_its_file_else_of_the_suite() -> None:
    recorded = {f"a.py::t{number}": (time,) * 2 for number, time in enumerate((1.0, 2.0, 90.0))}
    recorded["b.py::t"] = (5.0, 5.0)
    nodeids = [*recorded, "a.py::new", "c.py::new", "c.py::newer"]

    found = estimate(nodeids, recorded)

    known = {nodeid: found.micros[nodeid] for nodeid in recorded}
    of_file = [micros for nodeid, micros in known.items() if file_of(nodeid) == "a.py"]
    assert found.micros["a.py::new"] == median(of_file) > 1e6
    assert found.micros["c.py::new"] == found.micros["c.py::newer"]
    assert found.micros["c.py::new"] == pytest.approx(median(known.values()), abs=1)
    assert (found.by_file, found.by_suite, found.by_default) == (1, 2, 0)


def test_an_unknown_test_may_well_take_what_long_known_ones_take() -> None:
    recorded = {f"a.py::t{number:03}": (float(number),) * 2 for number in range(1, 101)}

    found = estimate([*recorded, "a.py::new"], recorded)

    long = sorted(found.micros[nodeid] for nodeid in recorded)[98]
    assert found.surprises == {"a.py::new": long - found.micros["a.py::new"]}
    assert found.surprises["a.py::new"] > 30e6
    recorded["b.py::giant"] = (900.0, 900.0)
    assert estimate([*recorded, "b.py::new"], recorded).surprises == {}


def test_without_any_history_every_test_counts_one_second() -> None:
    found = estimate(["a.py::t", "b.py::t"], {})

    assert dict(found.micros) == {"a.py::t": 1_000_000, "b.py::t": 1_000_000}
    assert (found.by_file, found.by_suite, found.by_default, found.sure) == (0, 0, 2, False)


def test_no_tests_need_no_estimates() -> None:
    assert estimate([], {}).micros == {}


def test_the_time_that_no_test_can_go_below_is_a_millisecond() -> None:
    recorded = {"a.py::t": (0.0, 0.0), "a.py::u": (0.0004,)}

    assert seconds(list(recorded), recorded) == {"a.py::t": 0.001, "a.py::u": 0.001}


def test_several_measurements_are_one_median_in_which_a_slow_run_does_not_show() -> None:
    recorded = {f"{file}.py::t": (1.0, 1.0, 60.0, 1.0, 1.0) for file in "abc"}

    assert seconds(list(recorded), recorded) == pytest.approx(dict.fromkeys(recorded, 1.0))


def test_a_history_that_misses_tests_is_taken_for_old() -> None:
    recorded = {f"a.py::t{number}": (2.0**number,) * 3 for number in range(8)}

    assert estimate(list(recorded), recorded).noise == 0
    found = estimate([*recorded, "a.py::new", "a.py::newer"], recorded)
    assert found.noise == pytest.approx(math.sqrt(DRIFT * 0.2)) == pytest.approx(0.5)
    assert not found.sure


def test_a_test_that_was_measured_often_is_believed_more_than_one_measured_once() -> None:
    recorded: dict[str, tuple[float, ...]] = {
        f"a.py::t{number}": (2.0**number * 0.8, 2.0**number * 1.25) for number in range(6)
    }
    recorded["a.py::once"] = (64.0,)
    recorded["a.py::often"] = (51.2, 51.2, 64.0, 80.0, 80.0)

    found = seconds(list(recorded), recorded)

    assert found["a.py::t5"] < found["a.py::once"] < found["a.py::often"] < 64.0


def test_noise_of_tests_that_take_no_time_says_little() -> None:
    recorded: dict[str, tuple[float, ...]] = {
        f"a.py::tiny{number}": (0.001, 0.008) for number in range(20)
    }
    recorded["a.py::long"] = (60.0, 60.0)

    found = estimate(list(recorded), recorded)

    assert found.noise < 0.1
    assert found.sure


def test_noisy_values_move_towards_the_mean_of_their_file() -> None:
    values = {"a.py::t": 0.0, "a.py::u": 2.0, "b.py::t": 8.0, "b.py::u": 10.0}

    # Worked by hand: within files 2 - 0.5 = 1.5 of 2, so a quarter of the way to a mean that
    # itself moves from 1 and 9 by 2/64 of the way to 5: between is 31, and 2 tests share 2.
    moved = shrink(values, dict.fromkeys(values, 0.5)).values

    towards = 1 + 1 / 32 * 4
    assert moved["a.py::t"] == pytest.approx(towards / 4)
    assert moved["a.py::u"] == pytest.approx(2 + (towards - 2) / 4)
    assert moved["b.py::t"] == pytest.approx(10 - moved["a.py::u"])


def giants(*times: float) -> dict[str, float]:
    """Logs of 200 tests of one file, 0.01 to 0.81 s, and of giants in it."""
    values = {f"a.py::t{number:03}": math.log(0.01 * 3 ** (number % 5)) for number in range(200)}
    return {**values, **{f"a.py::giant{n}": math.log(time) for n, time in enumerate(times)}}


@pytest.mark.parametrize("time", [5.0, 10.0, 20.0, 40.0])
def test_a_test_that_dominates_shrinks_towards_where_dominating_begins(time: float) -> None:
    values = giants(time)

    found = shrink(values, dict.fromkeys(values, 0.25))

    edge = DOMINATING * sum(map(math.exp, values.values()))
    weight = found.within / (found.within + 0.25)
    assert found.dominating == {"a.py::giant0"}
    assert math.exp(found.values["a.py::giant0"]) == pytest.approx(edge * (time / edge) ** weight)


def test_a_giant_is_not_taken_for_noise() -> None:
    values = giants(6000.0)

    moved = shrink(values, dict.fromkeys(values, 0.25)).values

    assert 6000 * math.exp(-0.5) < math.exp(moved["a.py::giant0"]) < 6000


def test_among_few_tests_none_dominates_by_its_share_alone() -> None:
    values = {f"a.py::t{number}": float(number) for number in range(5)}

    assert shrink(values, dict.fromkeys(values, 0.5)).dominating == frozenset()


def test_what_is_left_unknown_of_a_test_is_what_the_model_cannot_tell() -> None:
    values = {"a.py::t": 0.0, "a.py::u": 2.0, "b.py::t": 8.0, "b.py::u": 10.0}

    found = shrink(values, dict.fromkeys(values, 0.5))

    # Worked by hand, see above.
    assert (found.within, found.between) == pytest.approx((1.5, 31.0))
    assert found.left("a.py::t", 0.5) == pytest.approx(math.sqrt(0.5 * 1.5 / 2))
    assert found.left("a.py::new", None) == pytest.approx(math.sqrt(1.5))
    assert found.left("c.py::new", None) == pytest.approx(math.sqrt(1.5 + 31))
    assert shrink(values, dict.fromkeys(values, 0.0)).left("a.py::t", 0.0) == 0


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-5, 5)), min_size=1, max_size=30),
    st.floats(0, 4),
)
def test_no_value_moves_by_more_than_its_noise_or_leaves_the_range(
    drawn: list[tuple[str, float]], noise: float
) -> None:
    values = {f"{file}.py::t{number}": value for number, (file, value) in enumerate(drawn)}

    moved = shrink(values, dict.fromkeys(values, noise)).values

    for nodeid, value in moved.items():
        assert abs(value - values[nodeid]) <= math.sqrt(noise) + 1e-9
        assert min(values.values()) - 1e-9 <= value <= max(values.values()) + 1e-9


def test_shrunk_estimates_are_nearer_to_the_truth_than_measurements() -> None:
    chance = random.Random(7)  # noqa: S311 - nothing secret
    truth, noisy = {}, {}
    for file in range(30):
        middle = chance.gauss(0, 0.8)
        for test in range(20):
            nodeid = f"{file}.py::t{test}"
            truth[nodeid] = middle + chance.gauss(0, 1)
            noisy[nodeid] = truth[nodeid] + chance.gauss(0, 0.5)

    moved = shrink(noisy, dict.fromkeys(noisy, 0.25)).values

    def error(values: dict[str, float]) -> float:
        return fmean((values[nodeid] - truth[nodeid]) ** 2 for nodeid in truth)

    # The best that is possible is 0.25 * 1 / (1 + 0.25) = 0.2.
    assert error(moved) < 0.85 * error(noisy)
    assert error(moved) < 0.22


@given(st.permutations(list("abcdef")))
def test_the_order_of_the_history_does_not_matter(order: list[str]) -> None:
    times = {f"{file}.py::t": (1.0 + ord(file), 3.0) for file in "abcdef"}
    nodeids = [*times, "a.py::new", "g.py::new"]

    shuffled = {f"{file}.py::t": times[f"{file}.py::t"] for file in order}
    assert estimate(nodeids, shuffled) == estimate(nodeids, times)
