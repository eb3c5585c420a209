from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.junit.results import address
from exacthead.shards.nodeid import class_of, file_of, function_of, names_of, split, within
from exacthead.triage.known import KnownFailure
from exacthead.units.inside import selection


@pytest.mark.parametrize(
    ("nodeid", "file", "rest"),
    [
        ("unit/test_a.py::TestB::test_c[x::y]", "unit/test_a.py", "TestB::test_c[x::y]"),
        ("tests/test_\u00fc [x] 'q'.py::test_a", "tests/test_\u00fc [x] 'q'.py", "test_a"),
        ("tests/sub dir/test_::x.py::test_a", "tests/sub dir/test_::x.py", "test_a"),
        ("tests/test_::x.py", "tests/test_::x.py", ""),
        ("test_a.py::test_b[z.py::c]", "test_a.py", "test_b[z.py::c]"),
        ("test_a.py::test_b[z.py", "test_a.py", "test_b[z.py"),
        ("docs/usage.rst::usage.rst", "docs/usage.rst", "usage.rst"),
        ("lib/a.py::lib.a.f", "lib/a.py", "lib.a.f"),
        ("Makefile::all", "Makefile", "all"),
        ("v1.2::all", "v1.2", "all"),
        ("unit/pkg", "unit/pkg", ""),
        ("", "", ""),
    ],
)
def test_a_file_ends_behind_its_suffix(nodeid: str, file: str, rest: str) -> None:
    assert split(nodeid) == (file, rest)
    assert (file_of(nodeid), within(nodeid)) == (file, rest)


PATHS = st.text("ab:[].py/ '", max_size=12).map(lambda text: f"{text}/test_x.py")


@given(st.text("ab:[].py/", max_size=30) | PATHS.map(lambda path: f"{path}::test_a[b.py::c]"))
def test_the_plugin_in_a_worker_takes_ids_apart_in_the_same_way(nodeid: str) -> None:
    assert selection.file_of(nodeid) == file_of(nodeid)


@given(st.text("ab:[]/ '", max_size=12))
def test_nothing_in_the_folder_s_name_moves_the_end_of_the_file(folder: str) -> None:
    file = f"{folder}/test_x.py"
    nodeid = f"{file}::TestB::test_c[d.py::e]"

    assert split(nodeid) == (file, "TestB::test_c[d.py::e]")
    assert function_of(nodeid) == f"{file}::TestB::test_c"
    assert class_of(nodeid) == f"{file}::TestB"
    assert names_of(nodeid) == ("TestB", "test_c")
    module = f"{folder}/test_x".replace("/", ".")
    assert address(nodeid) == (f"{module}.TestB", "test_c[d.py::e]")


def test_an_odd_path_has_its_class_name_in_junit() -> None:
    assert address("tests/test_\u00fc [x] 'q'.py::test_a") == (
        "tests.test_\u00fc [x] 'q'",
        "test_a",
    )
    assert address("tests/test_a.py") == ("", "tests.test_a")


def test_a_known_failure_names_a_test_in_an_odd_path() -> None:
    entry = KnownFailure.model_validate(
        {
            "test": "tests/test_::x [y].py::test_a",
            "reason": "so",
            "issue": "https://example.test/1",
            "owner": "us",
            "expires": "2030-01-01",
        },
        strict=False,
    )

    assert (entry.file, entry.names) == ("tests/test_::x [y].py", ("test_a",))
    assert entry.covers("tests/test_::x [y].py::test_a[1]")
    assert not entry.covers("tests/test_::x [y].py::test_b")
