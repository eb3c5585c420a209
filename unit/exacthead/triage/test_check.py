from __future__ import annotations

import ast
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from exacthead.triage.check import check, gone_files, unused_in
from exacthead.triage.static import holds
from unit.exacthead.triage.making import TODAY, known_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.config import Harness

HARNESS = """
[workers.unit]
[jobs.train]
script = "train.sh"
contract = "train.toml"
level = "L3"
timeout_s = 1
[jobs.train.legs.plain]
workers = { policy = "unit" }
[runners.small]
cpus = 1
memory_gb = 1
"""
TESTS = """
import sys
from elsewhere import Base, test_shared

def test_plain(): ...

async def test_waiting(): ...

if sys.platform == "linux":
    def test_linux(): ...
else:
    def test_other(): ...

try:
    import fast
except ImportError:
    def test_slow(): ...

match sys.argv:
    case []:
        def test_matched(): ...

test_made = lambda: None

class TestOwn:
    def test_in(self): ...

    class TestInner:
        def test_deep(self): ...

class TestChild(TestOwn):
    def test_more(self): ...

class TestForeign(Base): ...

@make_tests
class TestDecorated: ...

@pytest.mark.slow
class TestMarked:
    def test_in(self): ...
"""


def write(harness: Harness, known: str) -> None:
    (harness.root / "ci" / "known_failures.toml").write_text(known, encoding="utf-8")
    folder = harness.root / "unit"
    folder.mkdir(exist_ok=True)
    (folder / "test_a.py").write_text(TESTS, encoding="utf-8")


def entry(target: str, more: str = "") -> str:
    return (
        f'[[known]]\n{target}\nreason = "cold"\nissue = "https://tracker.example/7"\n'
        f'owner = "core team"\nexpires = 2030-01-31\n{more}\n'
    )


def findings(harness: Harness, known: str) -> list[str]:
    write(harness, known)
    return check(harness.root, harness, TODAY)


@pytest.fixture
def harness(make_harness: Callable[[str], Harness]) -> Harness:
    return make_harness(HARNESS)


def test_a_repository_without_known_failures_is_fine(harness: Harness) -> None:
    assert check(harness.root, harness, TODAY) == []


def test_entries_that_hold_and_exist_are_fine(harness: Harness) -> None:
    known = entry('test = "unit/test_a.py::TestOwn::test_in[1]"', 'runner = "small"')
    known += entry('leg = "train.plain"') + entry('test = "unit/test_a.py"')

    assert findings(harness, known) == []


def test_an_expired_entry_fails_and_names_owner_and_issue(harness: Harness) -> None:
    write(harness, entry('leg = "train.plain"'))
    expired = TODAY + timedelta(days=17)

    assert check(harness.root, harness, TODAY + timedelta(days=16)) == []
    assert check(harness.root, harness, expired) == [
        (
            "ci/known_failures.toml: train.plain: expired on 2030-01-31; mend it "
            "(https://tracker.example/7), or let core team give it another date"
        )
    ]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ('leg = "train.plane"', "unused: no such leg; did you mean 'train.plain'?"),
        ('test = "unit/test_b.py::test_x"', "unused: no such file"),
        ('test = "unit/test_b.py"', "unused: no such file"),
        ('test = "unit"', "unused: no such file"),
        ('test = "unit/test_a.py::test_gone"', "unused: the file has no test_gone"),
        ('test = "unit/test_a.py::test_gone[1]"', "unused: the file has no test_gone"),
        ('test = "unit/test_a.py::TestOwn::test_x"', "unused: the file has no TestOwn::test_x"),
    ],
)
def test_an_unused_entry_fails(harness: Harness, target: str, found: str) -> None:
    (finding,) = findings(harness, entry(target))

    assert found in finding


def test_an_unknown_runner_fails_with_the_nearest(harness: Harness) -> None:
    assert findings(harness, entry('leg = "train.plain"', 'runner = "smal"')) == [
        (
            "ci/known_failures.toml: train.plain: "
            "no runner 'smal' in harness.toml; did you mean 'small'?"
        )
    ]


def test_a_broken_file_is_one_finding(harness: Harness) -> None:
    (finding,) = findings(harness, "[[known]]\n")

    assert "known entry 1, reason: Field required" in finding


def test_a_test_file_that_is_no_python_is_named(harness: Harness) -> None:
    write(harness, entry('test = "unit/test_broken.py::test_x"'))
    (harness.root / "unit" / "test_broken.py").write_text("def (", encoding="utf-8")

    (finding,) = check(harness.root, harness, TODAY)

    assert "unit/test_broken.py::test_x: its file cannot be read as Python" in finding


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("test_plain", True),
        ("test_waiting", True),
        ("test_linux", True),
        ("test_other", True),
        ("test_slow", True),
        ("test_matched", True),
        ("test_made", True),
        ("test_shared", True),
        ("TestOwn", True),
        ("TestOwn::test_in", True),
        ("TestOwn::TestInner::test_deep", True),
        ("TestOwn::test_deep", False),
        ("TestChild::test_more", True),
        ("TestChild::test_in", True),
        ("TestChild::test_gone", False),
        ("TestForeign::test_from_elsewhere", True),
        ("TestDecorated::test_made", True),
        ("TestMarked::test_in", True),
        ("TestMarked::test_gone", False),
        ("TestGone::test_in", False),
        ("test_in", False),
        ("test_plain::test_in", False),
    ],
)
def test_what_a_file_can_hold_is_read_from_its_source(name: str, there: bool) -> None:
    assert holds(ast.parse(TESTS), name.split("::")) is there


@pytest.mark.parametrize(
    "line",
    ["from elsewhere import *", "globals()['test_x'] = f", "def __getattr__(name): ..."],
)
def test_names_that_only_running_the_file_would_tell_count_as_there(line: str) -> None:
    assert holds(ast.parse(f"{TESTS}\n{line}\n"), ["test_x"])


def test_classes_that_inherit_in_a_circle_end_the_search() -> None:
    source = "class A(B): ...\nclass B(A): ...\n"

    assert holds(ast.parse(source), ["A"])
    assert holds(ast.parse(source), ["A", "test_x"])


def test_parameters_are_checked_against_what_was_collected() -> None:
    one, two = (known_failure(f"u/test_a.py::test_b[{number}]") for number in (1, 2))
    other_file = known_failure("u/test_z.py::test_b")
    leg = known_failure(None, leg="train.plain")

    unused = unused_in(
        [one, two, other_file, leg], ["u/test_a.py::test_b[1]"], files={"u/test_a.py"}
    )

    assert unused == (two,)


def test_a_file_that_is_not_there_has_no_tests(tmp_path: Path) -> None:
    (tmp_path / "u").mkdir()
    (tmp_path / "u/test_a.py").touch()
    here, gone, elsewhere = (
        known_failure(f"{file}::test_b")
        for file in ("u/test_a.py", "u/test_gone.py", "v/test_c.py")
    )
    entries = [here, gone, elsewhere, known_failure(None, leg="train.plain")]

    files = gone_files(entries, tmp_path, ["u"])

    assert files == {"u/test_gone.py"}
    assert unused_in(entries, ["u/test_a.py::test_b"], files) == (gone,)


def test_an_entry_for_a_file_without_tests_is_unused() -> None:
    whole = known_failure("u/test_a.py")

    assert unused_in([whole], [], files={"u/test_a.py"}) == (whole,)
    assert unused_in([whole], ["u/test_a.py::test_b"], files={"u/test_a.py"}) == ()
