from __future__ import annotations

from exacthead.impact.run import MEASURED, apart


def test_every_file_has_an_item_of_its_own() -> None:
    nodeids = ["b.py::test_2", "a.py::test_1", "b.py::test_1[::]", "a.py::Test::test_2"]

    assert apart(nodeids) == (
        ("b.py::test_2", "b.py::test_1[::]"),
        ("a.py::test_1", "a.py::Test::test_2"),
    )
    assert apart([]) == ()


def test_everything_in_the_checkout_is_measured_with_contexts() -> None:
    assert MEASURED.sources == (".",)
    assert MEASURED.omit == ()
    assert MEASURED.contexts
