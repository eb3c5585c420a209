"""What a whole run writes and says, as a process in a small repository: history, secrets, CI."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from exacthead.report.data import read_report
from exacthead.report.model import Class
from unit.exacthead.report.test_notify import webhook

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

SECRET = "open-sesame-22"  # noqa: S105 - it opens nothing
TOKEN = "ghp_" + "A1b2" * 9
# As a program says one: on its own, in a message that spans writes, in a file that it keeps.
LOUD = f"""
echo "the key is $LOUD"
printf 'half: open-ses'
sleep 0.3
printf 'ame-22, and {TOKEN}\\n'
echo "{{\\"key\\": \\"$LOUD\\"}}" >"$EXACTHEAD_ARTIFACTS/kept.json"
echo "no: $LOUD" >&2
exit 3
"""
SECRETS = """
[secrets]
names = ["LOUD_KEY"]
"""
TESTS = f"""
import pytest

def test_it():
    print("{TOKEN}")
    raise ValueError("{TOKEN}")

@pytest.mark.skip(reason="no accelerator")
def test_more():
    pass
"""


def declared(repository: Repository) -> str:
    return (repository.root / "ci/harness.toml").read_text(encoding="utf-8")


def test_a_red_run_tells_everyone_the_same_and_no_secret(small_repository: Repository) -> None:
    root = small_repository.root
    small_repository.commit(
        {
            "ci/harness.toml": declared(small_repository) + SECRETS,
            # The value is in no file: it is put together where it runs.
            "functional/count.sh": "LOUD=open-ses; LOUD+=ame-22\n" + LOUD,
        }
    )
    summary = root / ".cache/step-summary"
    summary.parent.mkdir(exist_ok=True)

    with webhook() as (address, told):
        code, printed = small_repository.exacthead(
            *("functional", "count", "--notify", f"{address}/{SECRET}"),
            LOUD_KEY=SECRET,
            GITHUB_STEP_SUMMARY=str(summary),
            GITHUB_ACTIONS="true",
        )

    run = small_repository.run_folder()
    report = read_report(run)
    assert code == 1, printed
    assert report.verdict == "1 new failure"
    (failure,) = report.failures
    assert (failure.name, failure.failure_class) == ("count.plain", Class.UNKNOWN)
    assert "no: ***" in failure.cause
    # Each writer says so.
    said = "exit code 3; last lines: the key is *** | half: ***, and *** | no: ***"
    assert f"Exacthead: {report.verdict}\n" in printed
    assert "count.plain | the key is ***\n" in printed
    assert "count.plain | half: ***, and ***\n" in printed
    text = summary.read_text(encoding="utf-8")
    assert text == (run / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("# Exacthead: 1 new failure\n")
    (annotation,) = re.findall("^::error .*$", printed, re.MULTILINE)
    assert annotation.startswith("::error file=functional/count.sh,title=count.plain (unknown)::")
    assert said in annotation
    assert 'exacthead_subjects{outcome="new"} 1.0' in (run / "metrics.om").read_text("utf-8")
    assert told[0]["verdict"] == report.verdict
    with closing(sqlite3.connect(root / "runs/exacthead.sqlite")) as history:
        assert history.execute("SELECT name, state FROM run").fetchall() == [(run.name, "failed")]
        (reason,) = history.execute("SELECT reason FROM faults").fetchone()
    assert reason == said
    # And no secret is left, wherever one looks.
    for path in (root / "runs").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SECRET.encode() not in content, path
            assert TOKEN.encode() not in content or path.name == "changes.diff", path
    assert SECRET not in printed + text
    assert TOKEN not in printed + text
    item = run / "items/count.plain"
    assert json.loads((item / "artifacts/kept.json").read_text("utf-8")) == {"key": "***"}


def test_a_token_in_a_test_s_output_is_in_no_file_of_the_run(small_repository: Repository) -> None:
    small_repository.commit({"unit/sums/test_sums.py": TESTS})

    code, printed = small_repository.exacthead("unit")

    run = small_repository.run_folder()
    report = read_report(run)
    assert code == 1, printed
    assert report.verdict == "1 new failure, 1 skipped"
    (failure,) = report.failures
    assert (failure.file, failure.line) == ("unit/sums/test_sums.py", 6)
    assert failure.cause == "ValueError: ***"
    held = [path for path in run.rglob("*") if path.is_file() and TOKEN in read(path)]
    assert held == []
    assert TOKEN not in printed


def test_a_key_in_a_test_s_name_breaks_no_result(small_repository: Repository) -> None:
    # Put together where it runs; a form that took the escape of the quote would break every file.
    named = """
import pytest

BEGIN = "-----BEGIN PRIVATE " + "KEY-----"
KEY = "A1b2" * 9

@pytest.mark.parametrize("text", [f'"{BEGIN}\\\\n{KEY}\\\\n"', f"{BEGIN} {KEY}"])
def test_it(text):
    assert text == f"{BEGIN}\\n{KEY}"
"""
    small_repository.commit({"unit/sums/test_sums.py": named})

    code, printed = small_repository.exacthead("unit")

    run = small_repository.run_folder()
    assert code == 1, printed
    assert "Traceback" not in printed
    assert read_report(run).verdict == "2 new failures"
    assert printed.splitlines()[-1] == "0 passed, 2 failed, 0 skipped"
    held = [path.name for path in run.rglob("*") if path.is_file() and "A1b2" * 9 in read(path)]
    # A test is run by its name, and its name is in the sources.
    assert held == ["plan.json"]


def read(path: object) -> str:
    with open(str(path), encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()


def test_a_plan_that_holds_a_secret_is_refused(small_repository: Repository) -> None:
    job = declared(small_repository) + f'environment = {{ KEY = "{SECRET}" }}\n' + SECRETS
    small_repository.commit({"ci/harness.toml": job})

    code, printed = small_repository.exacthead("functional", "count", LOUD_KEY=SECRET)

    assert code == 2
    assert "it holds the value of one that [secrets] names" in printed
    assert SECRET not in printed


def test_a_history_that_cannot_be_used_costs_a_run_nothing_but_itself(
    small_repository: Repository,
) -> None:
    runs = small_repository.root / "runs"
    runs.mkdir()
    (runs / "exacthead.sqlite").write_text("no database at all", encoding="utf-8")

    code, printed = small_repository.exacthead("functional", "count")

    assert code == 0, printed
    assert "no history: " in printed
    assert read_report(small_repository.run_folder()).verdict == "1 passed"


def test_a_second_red_run_says_since_when(small_repository: Repository) -> None:
    green = small_repository.git("rev-parse", "HEAD")
    assert small_repository.exacthead("unit")[0] == 0
    small_repository.commit({"unit/sums/test_sums.py": "def test_sum():\n    assert 1 == 2\n"})
    red = small_repository.git("rev-parse", "HEAD")

    for _ in range(2):
        assert small_repository.exacthead("unit")[0] == 1

    report = read_report(small_repository.run_folder())
    (failure,) = report.failures
    assert failure.since is not None
    assert (failure.since.commit, failure.since.green, failure.since.runs) == (red, green, 2)
    assert report.green is not None
    assert report.green.commit == green
    assert report.green.differences[0].startswith(f"commit {red[:7]}")
    assert report.expected is not None
