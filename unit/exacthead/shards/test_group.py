from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from exacthead.shards.group import group
from exacthead.shards.nodeid import class_of, file_of, function_of, within


def test_a_node_id_is_taken_apart_whatever_its_parameters() -> None:
    nodeid = "unit/a.py::Outer::Inner::test_x[b.py::c[1]]"

    assert file_of(nodeid) == "unit/a.py"
    assert within(nodeid) == "Outer::Inner::test_x[b.py::c[1]]"
    assert class_of(nodeid) == "unit/a.py::Outer"
    assert function_of(nodeid) == "unit/a.py::Outer::Inner::test_x"
    assert class_of("a.py::test_x[C::y]") == "a.py::test_x"
    assert file_of("unit/broken.py") == "unit/broken.py"


def parts(nodeids: list[str], limit: int, **micros: int) -> list[tuple[str, ...]]:
    times = {nodeid: micros.get(within(nodeid).partition("[")[0], 1) for nodeid in nodeids}
    return [each.nodeids for each in group(nodeids, times, limit, {})]


def test_a_module_stays_together_in_collection_order() -> None:
    assert parts(["b.py::t", "a.py::u", "b.py::s"], 10) == [("b.py::t", "b.py::s"), ("a.py::u",)]


def test_an_oversized_module_is_cut_in_collection_order() -> None:
    nodeids = [f"a.py::t{number}" for number in range(5)]

    assert parts(nodeids, 2) == [tuple(nodeids[:2]), tuple(nodeids[2:4]), tuple(nodeids[4:])]


def test_a_class_stays_together_where_it_fits() -> None:
    first, second = ["a.py::A::t", "a.py::A::u"], ["a.py::B::t", "a.py::B::u"]

    assert parts(["a.py::s", *first, *second], 4) == [("a.py::s", *first), tuple(second)]
    assert parts(["a.py::s", *first, *second], 2) == [("a.py::s",), tuple(first), tuple(second)]


def test_the_parameters_of_a_function_stay_together_where_they_fit() -> None:
    nodeids = ["a.py::t[1]", "a.py::t[2]", "a.py::u[1]", "a.py::u[2]", "a.py::u[3]"]

    assert parts(nodeids, 3) == [tuple(nodeids[:2]), tuple(nodeids[2:])]
    assert parts(nodeids, 2) == [tuple(nodeids[:2]), tuple(nodeids[2:4]), tuple(nodeids[4:])]


def test_a_class_that_does_not_fit_is_cut_between_its_functions() -> None:
    nodeids = ["a.py::A::t[1]", "a.py::A::t[2]", "a.py::A::u[1]", "a.py::A::u[2]"]

    assert parts(nodeids, 3) == [tuple(nodeids[:2]), tuple(nodeids[2:])]


def test_a_test_beyond_the_limit_is_a_part_of_its_own() -> None:
    assert parts(["a.py::t", "a.py::giant", "a.py::u"], 5, giant=9) == [
        ("a.py::t",),
        ("a.py::giant",),
        ("a.py::u",),
    ]


def test_a_group_that_may_take_longer_is_handed_out_earlier() -> None:
    micros = {"a.py::t": 5, "a.py::u": 1, "b.py::t": 8}

    first, second = sorted(group(list(micros), micros, 9, {"a.py::u": 4}), key=lambda g: g.order)

    assert (first.nodeids, first.micros, first.surprise) == (("a.py::t", "a.py::u"), 6, 4)
    assert (second.nodeids, second.micros, second.surprise) == (("b.py::t",), 8, 0)


NODE = st.builds(
    "{}.py::{}{}".format,
    st.sampled_from("abc"),
    st.sampled_from(["t", "u", "A::t", "A::u", "B::t"]),
    st.sampled_from(["", "[1]", "[2]", "[a::b]"]),
)


@given(st.lists(NODE, unique=True), st.integers(1, 60), st.data())
def test_groups_hold_every_test_once_and_no_group_is_too_long_but_a_single_test(
    nodeids: list[str], limit: int, data: st.DataObject
) -> None:
    micros = {nodeid: data.draw(st.integers(1, 30)) for nodeid in nodeids}

    groups = group(nodeids, micros, limit, {})

    assert sorted(n for each in groups for n in each.nodeids) == sorted(nodeids)
    for each in groups:
        assert len({file_of(nodeid) for nodeid in each.nodeids}) == 1
        assert each.micros == sum(micros[nodeid] for nodeid in each.nodeids)
        assert each.micros <= limit or len(each.nodeids) == 1
    for file in {file_of(nodeid) for nodeid in nodeids}:
        inside = [nodeid for nodeid in nodeids if file_of(nodeid) == file]
        mine = [each for each in groups if file_of(each.nodeids[0]) == file]
        assert [nodeid for each in mine for nodeid in each.nodeids] == inside
        if sum(micros[nodeid] for nodeid in inside) <= limit:
            assert len(mine) == 1
        for one, two in pairwise(mine):
            # Neighbours are apart for a reason: one with the first test of the other is too long
            # or would tear what belongs together.
            assert one.micros + two.micros > limit
