"""Collection: what cannot be collected has a result of its own and takes nothing else with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.units.collect import collect

from .conftest import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.units.collect import Collected

    from .conftest import Suite

FILES = {
    "tests/test_a.py": """
        import pytest
        class Engine: pass
        @pytest.mark.parametrize("engine", [Engine], ids=[" at 0x7f3a12345678"])
        def test_a(engine): pass
        @pytest.mark.parametrize("n", [2, 1])
        def test_n(n): pass
        @pytest.mark.slow
        def test_slow(): pass
    """,
    "tests/test_broken.py": "import not_to_be_found",
    "tests/test_crash.py": "import os; os._exit(0)",
    "tests/test_skips.py": "import pytest; pytest.skip('no GPU', allow_module_level=True)",
    "tests/sub/conftest.py": "raise RuntimeError('broken conftest')",
    "tests/sub/test_in_sub.py": "def test_in_sub(): pass",
    "tests/test_z.py": "def test_z(): pass",
    "pytest.ini": "[pytest]\nmarkers =\n    slow: takes long\n",
}
SURE = ("tests/test_a.py::test_n[2]", "tests/test_a.py::test_n[1]")


def collected(root: Path, *arguments: str, paths: tuple[str, ...] = ("tests",)) -> Collected:
    return collect(Path(sys.executable), root, paths, arguments, environment(), 100)


def test_the_plan_gets_everything_that_must_have_a_result(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    found = collected(suite(FILES).root, "-m", "not slow")
    address = r"tests/test_a.py::test_a[ at 0x7f3a12345678]"
    assert found.nodeids == (address, *SURE, "tests/test_z.py::test_z")
    assert found.unstable == (address,)
    assert (found.duplicates, found.deselected, found.fault) == ((), 1, "")
    assert "No module named 'not_to_be_found'" in found.errors["tests/test_broken.py"]
    assert found.errors["tests/test_crash.py"] == (
        "its process ended with exit code 0 while it collected this"
    )
    assert "broken conftest" in found.errors["tests/sub"]
    assert found.skipped == {"tests/test_skips.py": "no GPU"}
    assert set(found.planned) == {*found.nodeids, *found.errors, *found.skipped}


def test_a_collection_that_cannot_be_is_a_fault_in_words(
    suite: Callable[[Mapping[str, str]], Suite], tmp_path: Path
) -> None:
    here = suite({"tests/test_a.py": "import time\ntime.sleep(100)"})
    assert "not found: gone" in collected(here.root, paths=("gone",)).fault
    slow = collect(Path(sys.executable), tmp_path, ("tests",), (), environment(), 5)
    assert slow.fault.startswith("collection: it took longer than it may at tests/test_a.py")


def test_files_and_tests_that_are_not_there_have_their_own_results(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    files = {**FILES, "tests/test_b.py": "import os\nif 'SOON' not in os.environ: import nowhere"}
    here = suite(files)
    later = "tests/test_b.py::test_b"
    gone = ("tests/test_a.py::test_gone", "tests/test_a.py::test_a[<X object at 0x7f00aa]")
    never = "tests/test_crash.py::test_never"
    own = ("tests/test_broken.py", "tests/test_skips.py", "tests/test_z.py")
    below = "tests/sub/test_in_sub.py::test_in_sub"
    ran = here.run(here.order(SURE, gone, (never,), (later,), own, (below,)))
    verdicts = ran.verdicts
    assert [verdicts[each] for each in SURE] == ["passed", "passed"]
    assert verdicts[gone[0]].startswith("not_run(pytest did not collect it in this process")
    assert verdicts[gone[1]].startswith("not_run(its id holds the address of an object")
    crash = "crashed(its process ended with exit code 0 while it collected this)"
    assert verdicts["tests/test_crash.py"] == crash
    assert verdicts[never] == (
        "not_run(tests/test_crash.py could not be collected: its process ended with exit code 0 "
        "while it collected this)"
    )
    broken = "ModuleNotFoundError: No module named 'nowhere'"
    assert verdicts["tests/test_b.py"] == f"failed({broken})"
    assert verdicts[later] == f"not_run(tests/test_b.py could not be collected: {broken})"
    assert verdicts[own[0]] == "failed(ModuleNotFoundError: No module named 'not_to_be_found')"
    assert verdicts[own[1]] == "skipped(no GPU)"
    assert verdicts[own[2]].startswith("not_run(the plan knows no test in it")
    assert verdicts["tests/sub"] == "failed(RuntimeError: broken conftest)"
    assert verdicts[below].startswith("not_run(tests/sub could not be collected: RuntimeError")
    # Each has one result, also those that two processes tell about.
    assert all(len(result.attempts) == 1 for result in ran.reading.results)
    assert ran.code == 1


def test_only_files_with_planned_tests_are_collected(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(FILES)
    # Also where the suite names files, and where a link leads to them.
    (here.root / "link").symlink_to("tests")
    paths = ("tests/test_broken.py", "link/test_a.py", "tests/test_z.py", "link")
    ids = ("tests/test_z.py::test_z", "link/test_z.py::test_z")
    ran = here.run(here.order(ids, paths=paths))
    assert ran.verdicts == dict.fromkeys(ids, "passed")
    assert ran.code == 0


def test_what_ends_pytest_before_any_test_is_red_in_its_own_words(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite({"tests/test_a.py": "def test_a(): pass"})
    only = "tests/test_a.py::test_a"

    def run(name: str, *arguments: str) -> tuple[str, tuple[str, ...]]:
        ran = here.run(here.order((only,), arguments=arguments), name)
        assert ran.code == 1
        return ran.verdicts[only], ran.reading.faults

    verdict, faults = run("usage", "--no-such-option")
    assert "pytest refused its options or paths" in verdict
    assert len(faults) == 1
    (here.root / "conftest.py").write_text("def pytest_collection(): raise ValueError('odd')")
    verdict, faults = run("internal")
    assert "pytest had an internal error: " in verdict
    assert "ValueError: odd" in faults[0]
    (here.root / "conftest.py").write_text("import os; os.kill(os.getpid(), 9)")
    verdict, faults = run("conftest")
    assert "ended by SIGKILL before it collected a file" in verdict
    (here.root / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtestloop(session): return True\n"
    )
    verdict, faults = run("loop")
    assert "pytest ended without asking for a test" in verdict


def test_options_of_other_runners_are_refused_by_name(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "conftest.py": """
                def pytest_addoption(parser):
                    parser.addoption("--numprocesses", default=None)
            """,
            "tests/test_a.py": "def test_a(): pass",
        }
    )
    ran = here.run(here.order(("tests/test_a.py::test_a",), arguments=("--numprocesses", "4")))
    assert "pytest-xdist's -n 4 would run the tests" in ran.reading.faults[0]
    assert ran.kinds == {"tests/test_a.py::test_a": "not_run"}
