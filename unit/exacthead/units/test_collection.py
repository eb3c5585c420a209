"""Collection: what cannot be collected has a result of its own and takes nothing else with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.runs.process import read_process
from exacthead.units.absent import absent
from exacthead.units.collect import collect
from unit.exacthead.units.small import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.units.collect import Collected
    from unit.exacthead.units.small import Suite

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
CRASH = """
    import ctypes, os
    def pytest_collection():
        os.write(1, b"the first word\\nthe last word\\n")
        ctypes.string_at(0)
"""
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
    usage = "collection: pytest refused its options or paths: ERROR: file or directory not found"
    assert collected(here.root, paths=("gone",)).fault == f"{usage}: gone"
    slow = collect(Path(sys.executable), tmp_path, ("tests",), (), environment(), 5)
    assert slow.fault.startswith("collection: it took longer than it may at tests/test_a.py")
    assert re.search(r'test_a.py", line 2 in <module>', slow.log)


def test_the_fault_is_one_line_and_the_log_is_kept_beside_it(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite({"tests/test_a.py": "def test_a(): pass", "conftest.py": CRASH})
    crash = collected(here.root)
    assert crash.fault == "collection: its process was ended by SIGSEGV: the last word"
    assert crash.log.startswith("the first word\nthe last word")
    assert re.search(r'conftest.py", line \d+ in pytest_collection', crash.log)

    (here.root / "conftest.py").write_text("def pytest_collection(): raise ValueError('odd')")
    internal = collected(here.root)
    assert internal.fault == "collection: pytest had an internal error: ValueError: odd"
    assert "Traceback (most recent call last)" in internal.log


ENDS = {
    "tests/test_a.py": "def test_a(): pass",
    "tests/test_interrupts.py": "raise KeyboardInterrupt",
    "tests/test_leaves.py": "raise SystemExit(0)",
    "tests/test_z.py": "class TestZ:\n    def test_z(self): pass",
}
ENDED = {
    "tests/test_interrupts.py": "it ended pytest: KeyboardInterrupt",
    "tests/test_leaves.py": "it ended pytest: SystemExit: 0",
}


def test_a_file_that_ends_pytest_is_red_by_name_and_the_others_are_not_lost(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(ENDS)
    found = collected(here.root)
    tests = ("tests/test_a.py::test_a", "tests/test_z.py::TestZ::test_z")
    assert (found.nodeids, found.errors, found.fault) == (tests, ENDED, "")

    ran = here.run(here.order(found.planned))
    ends = {file: f"failed({reason})" for file, reason in ENDED.items()}
    assert ran.verdicts == {**dict.fromkeys(tests, "passed"), **ends}
    assert ran.reading.faults == ()


def test_a_collection_that_is_stopped_before_its_end_is_a_fault(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    stop = """
        def pytest_itemcollected(item):
            item.session.shouldstop = "enough"
    """
    here = suite({**ENDS, "conftest.py": stop})
    stopped = collected(here.root)
    assert stopped.fault == "collection: pytest was interrupted: Interrupted: enough"
    assert stopped.planned == ()

    broken = suite({"tests/test_a.py": "import not_to_be_found", "conftest.py": ""})
    first = collected(broken.root, "-x")
    assert first.fault.endswith("Failed: stopping after 1 failures")


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


DROPS = """
    import pytest
    collect_ignore = ["test_listed.py"]
    def pytest_collection_modifyitems(config, items):
        items[:] = [item for item in items if "dropped" not in item.name]
        said = [item for item in items if "said" in item.name]
        items[:] = [item for item in items if item not in said]
        config.hook.pytest_deselected(items=said)
"""


def test_what_pytest_passes_over_in_silence_is_named_and_what_options_leave_out_is_said(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    one = "def test_one(): pass"
    files = {
        **{f"tests/{name}": one for name in ("test_a.py", "build/test_built.py", "test_listed.py")},
        **{f"tests/{name}": one for name in ("test_left.py", "gone/test_left.py")},
        "tests/test_empty.py": "",
        "tests/test_dropped.py": "def test_dropped(): pass",
        "tests/test_said.py": "def test_said(): pass",
        "tests/test_slow.py": "def test_slow(): pass",
        "tests/test_bad.py": "import not_to_be_found",
        "tests/sub/conftest.py": "raise RuntimeError",
        "tests/sub/test_in_sub.py": one,
    }
    here = suite({**files, "tests/conftest.py": DROPS})
    found = collected(
        here.root,
        *("-k", "not slow", "--ignore=tests/gone", "--ignore-glob", "*/test_left.py"),
    )
    tests = sorted(name for name in files if name.startswith("tests/") and "conftest" not in name)
    gone = absent(found, here.root, tests)
    passed_over, dropped = gone.faults
    assert passed_over.startswith(
        "pytest found no test in tests/build/test_built.py, tests/test_empty.py, "
        "tests/test_listed.py: empty, or passed over"
    )
    assert "dropped without a word tests/test_dropped.py::test_dropped;" in dropped
    assert gone.notes == ("left out by --ignore: tests/gone/test_left.py, tests/test_left.py",)
    assert (found.deselected, found.nodeids) == (2, ("tests/test_a.py::test_one",))


def test_a_test_that_no_plan_knows_is_a_fault_by_name(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    varying = """
        import os, pytest
        @pytest.mark.parametrize("n", range(4 if "EXACTHEAD_STACKS_DIR" in os.environ else 3))
        def test_n(n): pass
    """
    other = {"tests/test_b.py": "def test_planned(): pass\ndef test_left_out(): pass"}
    here = suite({"tests/test_a.py": varying, **other})
    ids = collected(here.root).nodeids
    assert ids[2] == "tests/test_a.py::test_n[2]"
    ran = here.run(here.order(ids[:2], ids[3:4], elsewhere=(ids[2], ids[4]), processes=2))
    assert ran.kinds == {ids[0]: "passed", ids[1]: "passed", ids[3]: "passed"}
    (fault,) = ran.reading.faults
    new = "tests/test_a.py has 1 test(s) that the plan does not know, as tests/test_a.py::test_n[3]"
    assert new in fault
    assert ran.code == 1

    same = {"tests/test_a.py": varying.replace("EXACTHEAD_STACKS_DIR", "NEVER")}
    again = suite(same).run(here.order(ids[:2], elsewhere=ids[2:]), "again")
    assert (again.code, again.reading.faults) == (0, ())


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


def test_what_files_start_when_they_are_imported_ends_with_the_collection(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import subprocess
                from pathlib import Path
                child = subprocess.Popen(["sleep", "600"], start_new_session=True)
                Path("pid").write_text(str(child.pid))
                def test_a(): pass
            """
        }
    )

    found = collected(here.root)

    assert found.planned == ("tests/test_a.py::test_a",)
    child = read_process(int((here.root / "pid").read_text()))
    assert child is None or child.state in "ZX"
