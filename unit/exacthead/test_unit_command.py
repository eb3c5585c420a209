"""The unit command end to end: suites planned, sharded, run, judged, reported as for a user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.junit import CaseRecord, read_junit

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository

LIBRARY = """
def double(number):
    if number < 0:
        return "negative"
    return 2 * number
"""
DOUBLES = """
import pytest
from lib.double import double

@pytest.mark.parametrize("n", range(4))
def test_double(n):
    assert double(n) == 2 * n
"""
CRASH = """
import os, signal

def test_before():
    assert True

def test_killed():
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def test_after():
    assert True
"""

DEADLY = """
import ctypes, os

def pytest_collection():
    os.write(1, b"the first word\\nthe last word\\n")
    ctypes.string_at(0)
"""


@pytest.fixture
def repository(small_repository: Repository) -> Repository:
    """The small repository with a library that is measured, and a second test file."""
    harness = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    small_repository.commit(
        {
            "ci/harness.toml": harness + '\n[coverage]\nsources = ["lib"]\n',
            "lib/double.py": LIBRARY,
            "unit/sums/test_double.py": DOUBLES,
        }
    )
    return small_repository


def change_suite(repository: Repository, line: str) -> None:
    path = repository.root / "ci/harness.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("[suites.sums]", f"[suites.sums]\n{line}"), encoding="utf-8")


def cases(run: Path) -> list[CaseRecord]:
    return [each for each in read_junit(run / "junit.xml") if isinstance(each, CaseRecord)]


def outcomes(run: Path) -> dict[str, str]:
    return {each.properties["nodeid"]: each.outcome for each in cases(run)}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


TESTS = {f"unit/sums/test_double.py::test_double[{n}]": "passed" for n in range(4)} | {
    "unit/sums/test_sums.py::test_sum": "passed"
}


def test_shards_run_every_test_exactly_once_and_lie_in_one_run(repository: Repository) -> None:
    code, printed = repository.exacthead("unit", "--shards", "3", "--strict")

    run = repository.run_folder()
    assert code == 0, printed
    assert printed.splitlines()[-1] == "5 passed, 0 failed, 0 skipped"
    assert outcomes(run) == TESTS
    assert len(cases(run)) == len(TESTS)
    items = read(run / "plan.json")["items"]
    assert [item["id"] for item in items] == [f"unit.sums.{n}of3" for n in (1, 2, 3)]
    planned = [test for item in items for group in item["shard"]["groups"] for test in group]
    assert sorted(planned) == sorted(TESTS)


def test_one_shard_is_what_it_is_among_all(repository: Repository) -> None:
    repository.exacthead("unit", "--shards", "2", "--no-cov")
    whole = read(repository.run_folder() / "plan.json")["items"]
    code, printed = repository.exacthead("unit", "--shard", "2/2", "--no-cov")
    (alone,) = read(repository.run_folder() / "plan.json")["items"]

    assert code == 0, printed
    assert alone["shard"] == whole[1]["shard"]


def test_a_killed_test_costs_only_itself_and_its_shard_is_replayed(repository: Repository) -> None:
    repository.commit({"unit/sums/test_crash.py": CRASH})

    code, printed = repository.exacthead("unit", "--no-cov")

    first = repository.run_folder()
    assert code == 1
    crashed = "unit/sums/test_crash.py::test_killed"
    found = outcomes(first)
    assert found.pop(crashed) == "error"
    assert set(found.values()) == {"passed"}
    (culprit,) = (each for each in cases(first) if each.properties["nodeid"] == crashed)
    assert "SIGKILL" in culprit.results[0].message
    assert "last words" in culprit.stdout
    assert f"{crashed}: crashed (crash): process: its process was ended by SIGKILL" in printed

    code, printed = repository.exacthead("reproduce", f"runs/{first.name}/unit.sums")

    second = repository.run_folder()
    assert code == 1, printed
    assert second != first
    assert outcomes(second) == outcomes(first)
    assert read(second / "plan.json")["items"] == read(first / "plan.json")["items"]


def test_a_suite_that_cannot_run_here_is_skipped_for_a_person_and_red_when_strict(
    repository: Repository,
) -> None:
    change_suite(repository, 'requires = ["program:no-such-program"]')

    code, printed = repository.exacthead("unit")
    strict, said = repository.exacthead("unit", "--strict")

    assert (code, strict) == (0, 1)
    assert printed.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"
    assert "needs what is not here: no no-such-program on PATH" in printed
    assert "no no-such-program on PATH" in said


def test_a_suite_that_selects_nothing_is_red(repository: Repository) -> None:
    code, printed = repository.exacthead("unit", "--pytest", "-k nothing_is_called_so")

    assert code == 1
    assert "no tests: the suite selects nothing" in printed
    assert printed.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_a_collection_that_crashes_has_one_line_and_its_log_in_the_items_folder(
    repository: Repository,
) -> None:
    repository.commit({"conftest.py": DEADLY})

    code, printed = repository.exacthead("unit", "--no-cov")

    run = repository.run_folder()
    (case,) = cases(run)
    reason = "collection: its process was ended by SIGSEGV: the last word"
    assert code == 1
    assert f"unit.sums: failed (crash): {reason}\n" in printed
    assert [item["settled"]["reason"] for item in read(run / "plan.json")["items"]] == [reason]
    assert case.results[0].message == reason
    log = (run / "items/unit.sums/stdout.log").read_text(encoding="utf-8")
    assert log.startswith("the first word\nthe last word")
    assert "conftest.py" in log
    assert "conftest.py" in (run / "summary.md").read_text(encoding="utf-8")


def test_a_file_that_does_not_import_is_red_and_hides_no_other(repository: Repository) -> None:
    repository.commit({"unit/sums/test_broken.py": "import no_such_module\n"})

    code, _ = repository.exacthead("unit", "--no-cov")

    found = outcomes(repository.run_folder())
    assert code == 1
    assert found.pop("unit/sums/test_broken.py") == "error"
    assert found == TESTS


def test_a_test_file_that_pytest_passes_over_is_red_by_name(repository: Repository) -> None:
    repository.commit({"unit/sums/build/test_built.py": "def test_built(): pass\n"})

    code, printed = repository.exacthead("unit", "--no-cov")
    told, said = repository.exacthead("unit", "--no-cov", "--pytest=--ignore=unit/sums/build")

    assert code == 1
    assert "pytest found no test in unit/sums/build/test_built.py" in printed
    assert told == 0, said
    assert "left out by --ignore: unit/sums/build/test_built.py" in said


def test_a_test_that_kills_its_driver_is_the_one_to_blame(repository: Repository) -> None:
    kills = """
import os, signal, time

def test_before(): pass
def test_kills():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
def test_after(): pass
"""
    repository.commit({"unit/sums/test_kills.py": kills})

    code, _ = repository.exacthead("unit", "--no-cov")

    said = {
        each.name: [result.message for result in each.results]
        for each in cases(repository.run_folder())
    }
    assert code == 1
    assert said["test_kills"] == ["process: its driver was killed while it ran"]
    assert said["test_before"] == []
    assert said["test_after"] == ["process: the shard's driver had been killed before its turn"]


def test_tests_that_an_item_s_environment_makes_are_planned_as_they_run(
    repository: Repository,
) -> None:
    made = """
import os, pytest

@pytest.mark.parametrize("name", sorted(n for n in os.environ if n.startswith("EXACTHEAD_PYTHON")))
def test_role(name): pass
"""
    repository.commit({"unit/sums/test_roles.py": made})

    code, printed = repository.exacthead("unit", "--no-cov")

    assert code == 0, printed
    role = "unit/sums/test_roles.py::test_role[EXACTHEAD_PYTHON_SUITE]"
    assert outcomes(repository.run_folder())[role] == "passed"


def test_coverage_is_combined_over_shards_and_a_change_is_judged_by_it(
    repository: Repository,
) -> None:
    base = repository.git("rev-parse", "HEAD")
    changed = LIBRARY + "\n\ndef triple(number):\n    return 3 * number\n"
    repository.commit({"lib/double.py": changed})

    code, printed = repository.exacthead("unit", "--shards", "2")
    run = repository.run_folder()
    red, gated = repository.exacthead("unit", "--base", base, "--gate")

    assert code == 0, printed
    assert (run / "coverage.sqlite").exists()
    assert 'filename="lib/double.py"' in (run / "coverage.xml").read_text(encoding="utf-8")
    assert "sys.monitoring" in (run / "summary.md").read_text(encoding="utf-8")
    assert red == 1
    assert "patch coverage failed" in gated
    assert read(repository.run_folder() / "result.json")["state"] == "failed"


KNOWN = """
[[known]]
test = "unit/sums/test_red.py::test_red"
reason = "not mended yet"
issue = "https://example.test/1"
owner = "the sums team"
expires = 2999-01-01
"""


def test_a_known_failure_runs_is_shown_and_does_not_block(repository: Repository) -> None:
    repository.commit(
        {
            "unit/sums/test_red.py": "def test_red():\n    assert 1 == 2\n",
            "ci/known_failures.toml": KNOWN,
        }
    )

    code, printed = repository.exacthead("unit", "--no-cov")

    run = repository.run_folder()
    assert code == 0, printed
    assert outcomes(run)["unit/sums/test_red.py::test_red"] == "skipped"
    assert printed.splitlines()[-1].endswith(" passed, 0 failed, 0 skipped, 1 quarantined")
    assert "Quarantined" in (run / "summary.md").read_text(encoding="utf-8")


def test_a_known_failure_of_a_file_that_is_gone_is_reported(repository: Repository) -> None:
    entry = KNOWN.replace("test_red.py", "test_gone.py")
    repository.commit({"ci/known_failures.toml": entry})

    code, printed = repository.exacthead("unit", "--no-cov")

    assert code == 0, printed
    report = (repository.run_folder() / "summary.md").read_text(encoding="utf-8")
    assert "unit/sums/test_gone.py::test_red" in report


def test_a_broken_list_of_known_failures_is_refused_before_anything_runs(
    repository: Repository,
) -> None:
    repository.commit({"ci/known_failures.toml": "[[known]"})

    code, printed = repository.exacthead("unit", "--no-cov")

    assert code == 2, printed
    assert "ci/known_failures.toml" in printed
    assert not (repository.root / "runs").exists()


def test_a_base_that_does_not_exist_is_refused_before_anything_runs(
    repository: Repository,
) -> None:
    code, printed = repository.exacthead("unit", "--no-cov", "--base", "nowhere")

    assert code == 2, printed
    assert "nowhere" in printed
    assert not (repository.root / "runs").exists()


def test_a_test_cannot_make_its_own_failure_a_known_one(repository: Repository) -> None:
    writes = f"""
import pathlib

def test_list():
    pathlib.Path("ci/known_failures.toml").write_text({KNOWN!r})

def test_red():
    assert 1 == 2
"""
    repository.commit({"unit/sums/test_red.py": writes})

    code, printed = repository.exacthead("unit", "--no-cov")

    assert code == 1, printed
    assert outcomes(repository.run_folder())["unit/sums/test_red.py::test_red"] == "failure"


def test_a_flaky_test_passes_in_a_fresh_process_and_is_called_flaky(
    repository: Repository,
) -> None:
    flaky = """
import os, pathlib

def test_flaky():
    seen = pathlib.Path(os.environ["HOME"]) / "seen"
    before = seen.exists()
    seen.touch()
    assert before
"""
    repository.commit({"unit/sums/test_flaky.py": flaky})

    once, _ = repository.exacthead("unit", "--no-cov")
    code, printed = repository.exacthead("unit", "--no-cov", "--retries", "2")

    run = repository.run_folder()
    assert (once, code) == (1, 0), printed
    assert "1 of them flaky" in (run / "summary.md").read_text(encoding="utf-8")
    (case,) = (each for each in cases(run) if "test_flaky" in each.name)
    assert case.outcome == "passed"
    assert len(case.reruns) == 1
