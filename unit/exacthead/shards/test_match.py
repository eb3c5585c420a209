from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exacthead.shards.match import match

PATH = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(
    lambda parts: "/".join([*parts, "test_x.py"])
)
NODE = st.builds("{}::{}".format, PATH, st.sampled_from(["t", "u", "t[x/test_x.py::t]"]))


def test_the_same_node_id_is_an_exact_match() -> None:
    found = match(["a.py::t"], ["a.py::t", "a.py::new"])

    assert (found.exact, found.unknown) == (("a.py::t",), ("a.py::new",))
    assert (found.ambiguous, found.gone, found.elsewhere) == ((), (), ())


def test_a_longer_recorded_path_is_matched_by_its_end() -> None:
    found = match(["ci/unit/x.py::t", "ci/unit/x.py::C::u[1]"], ["unit/x.py::t"])

    assert found.sources == {"unit/x.py::t": "ci/unit/x.py::t"}
    assert found.prefixes == {"ci/": 1}
    assert found.source("unit/x.py::t") == "ci/unit/x.py::t"
    assert found.elsewhere == ("ci/unit/x.py::C::u[1]",)


def test_a_shorter_recorded_path_is_matched_by_the_end_of_the_collected_one() -> None:
    found = match(["x.py::t", "x.py::u"], ["unit/x.py::t", "unit/x.py::u"])

    assert dict(found.sources) == {"unit/x.py::t": "x.py::t", "unit/x.py::u": "x.py::u"}
    assert found.prefixes == {"-unit/": 2}
    assert found.unknown == ()


def test_half_a_folder_name_is_no_end_of_a_path() -> None:
    found = match(["my_unit/x.py::t"], ["unit/x.py::t"])

    assert (found.unknown, found.elsewhere) == (("unit/x.py::t",), ("my_unit/x.py::t",))


def test_an_entry_that_could_be_two_tests_is_reported_and_not_used() -> None:
    found = match(["x.py::t"], ["a/x.py::t", "b/x.py::t"])

    assert found.ambiguous == ("x.py::t",)
    assert found.unknown == ("a/x.py::t", "b/x.py::t")


def test_two_entries_that_could_be_one_test_are_reported_and_not_used() -> None:
    found = match(["a/x.py::t", "b/x.py::t"], ["x.py::t"])

    assert found.ambiguous == ("a/x.py::t", "b/x.py::t")
    assert found.unknown == ("x.py::t",)


def test_an_exact_match_wins_over_a_path_that_ends_alike() -> None:
    found = match(["x.py::t", "a/x.py::t"], ["x.py::t"])

    assert (found.exact, found.elsewhere) == (("x.py::t",), ("a/x.py::t",))
    assert found.ambiguous == ()


def test_a_test_that_is_gone_from_its_file_is_not_taken_for_one_of_another_file() -> None:
    found = match(["x.py::t", "x.py::u"], ["x.py::u", "new/x.py::t"])

    assert (found.exact, found.gone, found.unknown) == (
        ("x.py::u",),
        ("x.py::t",),
        ("new/x.py::t",),
    )


def test_parameters_that_look_like_paths_and_ids_are_left_alone() -> None:
    nodeid = "unit/x.py::t[a/b.py::c]"

    assert match([f"ci/{nodeid}"], [nodeid]).prefixes == {"ci/": 1}


@given(st.sets(NODE), st.lists(NODE, unique=True))
def test_every_entry_and_every_test_is_accounted_for_once(
    recorded: set[str], nodeids: list[str]
) -> None:
    found = match(recorded, nodeids)

    used = [*found.exact, *found.sources.values()]
    assert sorted([*used, *found.ambiguous, *found.gone, *found.elsewhere]) == sorted(recorded)
    assert sorted([*found.exact, *found.sources, *found.unknown]) == sorted(nodeids)
    assert sum(found.prefixes.values()) == len(found.sources)


@given(st.permutations(["ci/a/x.py::t", "x.py::u", "a/x.py::u", "z.py::t", "ci/b.py::t"]))
def test_the_order_of_the_history_does_not_matter(recorded: list[str]) -> None:
    nodeids = ["a/x.py::t", "a/x.py::u", "b.py::t"]

    assert match(recorded, nodeids) == match(sorted(recorded), nodeids)
