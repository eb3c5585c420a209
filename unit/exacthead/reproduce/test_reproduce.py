"""Whole reproductions, as a user asks for them, in a small repository of their own."""

from __future__ import annotations

import json
import re
import shlex
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.plan import read_plan
from exacthead.reproduce import reproduce_item

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.conftest import Repository

EXPECTED = {
    "unit/sums/shared.py": "STATE = set()\n",
    "unit/sums/test_1.py": (
        "from unit.sums.shared import STATE\n"
        "def test_a():\n    STATE.add('a')\n"
        "def test_b():\n    STATE.discard('c')\n"
    ),
    "unit/sums/test_2.py": (
        "from unit.sums.shared import STATE\n"
        "def test_c():\n    STATE.add('c')\n"
        "def test_d():\n    pass\n"
    ),
    "unit/sums/test_3.py": (
        "from unit.sums.shared import STATE\n"
        "def test_healthy():\n    pass\n"
        "def test_last():\n    assert STATE != {'a', 'c'}\n"
    ),
}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def reproduction(printed: str) -> list[str]:
    found = re.search(r"run it again: python -m exacthead reproduce (.+)", printed)
    assert found, printed
    return shlex.split(found[1])


def failing(words: str) -> dict[str, str]:
    """A script that says something and fails."""
    return {"functional/count.sh": f"echo {words}; exit 3\n"}


def test_the_line_of_a_red_job_replays_it(small_repository: Repository) -> None:
    small_repository.commit(failing("red"))

    code, printed = small_repository.exacthead("functional", "count")

    assert code == 1
    first = small_repository.run_folder()
    line = reproduction(printed)
    assert line == [f"runs/{first.name}/count.plain"]

    code, printed = small_repository.exacthead("reproduce", *line)

    assert code == 1
    assert "differs" not in printed
    second = small_repository.run_folder()
    assert second != first
    plans = [read(run / "plan.json") for run in (first, second)]
    assert plans[0]["items"] == plans[1]["items"]
    assert plans[0]["digest"] == plans[1]["digest"]
    assert reproduction(printed) == [f"runs/{second.name}/count.plain"]


def test_a_dirty_run_is_replayed_with_its_changes_whatever_is_here_now(
    small_repository: Repository,
) -> None:
    small_repository.write(
        {"functional/count.sh": "cat 'new file'; exit 3\n", "new file": "untracked words\n"}
    )
    _, printed = small_repository.exacthead("functional", "count")
    line = reproduction(printed)
    first = small_repository.run_folder()
    assert "-dirty" in first.name
    assert "untracked words" in (first / "changes.diff").read_text(encoding="utf-8")
    small_repository.git("clean", "--quiet", "--force")
    small_repository.commit(failing("the new script"))

    code, printed = small_repository.exacthead("reproduce", *line)

    assert code == 1, printed
    assert "count.plain | untracked words" in printed
    assert "differs" not in printed
    second = small_repository.run_folder()
    assert second.parent == small_repository.root / "runs"
    assert read(second / "plan.json")["digest"] == read(first / "plan.json")["digest"]
    assert len(small_repository.git("worktree", "list").splitlines()) == 1

    # The repetition's own line works like the first one's.
    code, printed = small_repository.exacthead("reproduce", *reproduction(printed))
    assert "count.plain | untracked words" in printed
    assert "differs" not in printed


def test_what_differs_is_said_and_stays_in_the_report(small_repository: Repository) -> None:
    small_repository.exacthead("functional", "count")
    run = small_repository.run_folder()
    # As if the run had been made on a machine with another environment.
    elsewhere = replace(read_plan(run / "plan.json"), keys={"plain": "f" * 64})
    (run / "plan.json").write_text(json.dumps(elsewhere.as_data()), encoding="utf-8")

    code, printed = small_repository.exacthead(
        "reproduce", f"runs/{run.name}/count.plain", NETRC="/none"
    )

    again = small_repository.run_folder()
    key = read(again / "plan.json")["keys"]["plain"]
    assert code == 0
    assert key != "f" * 64
    summary = (again / "summary.md").read_text(encoding="utf-8")
    for said in (
        f"differs: worker plain: key {key[:12]} here, ffffffffffff there",
        "differs: inherited variables: NETRC",
    ):
        assert f"exacthead: {said}" in printed
        assert said in summary


def test_a_repetition_stops_at_the_first_red_one(
    small_repository: Repository, tmp_path: Path
) -> None:
    # Red from the third time on, and each time it leaves something that the next must not see.
    times = tmp_path / "times"
    small_repository.commit(
        {
            "functional/count.sh": f"echo >>{times}; test ! -e scratch || exit 9\n"
            'echo \'{"step": 1, "count": 3}\' >"$EXACTHEAD_ITEM_FOLDER/metrics.jsonl"\n'
            "echo scratch >scratch\n"
            f"test $(wc -l <{times}) -lt 3\n"
        }
    )
    code, _ = small_repository.exacthead("functional", "count")
    assert code == 0
    first = small_repository.run_folder()
    times.unlink()
    (small_repository.root / "scratch").unlink()

    code, printed = small_repository.exacthead(
        "reproduce", f"runs/{first.name}/count.plain", "--until-fail", "9"
    )

    assert code == 1
    assert re.findall("exacthead: (repetition .*)", printed) == [
        "repetition 1 of 9, 0 were green",
        "repetition 2 of 9, 1 were green",
        "repetition 3 of 9, 2 were green",
    ]
    assert re.fullmatch(r"\d passed, \d failed, 0 skipped", printed.splitlines()[-1])
    assert len(small_repository.run_folders()) == 4
    last = small_repository.run_folder().name
    assert reproduction(printed) == [f"runs/{last}/count.plain"]


def test_a_repetition_that_is_never_red_is_green(small_repository: Repository) -> None:
    small_repository.exacthead("functional", "count")
    run = small_repository.run_folder()
    (run / "provenance.json").unlink()

    code, printed = small_repository.exacthead(
        "reproduce", f"{run}/items/count.plain", "--until-fail", "2"
    )

    assert code == 0
    assert "repetition 2 of 2, 1 were green" in printed
    said = "exacthead: differs: that run ended before it told what it used"
    assert printed.splitlines().count(said) == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"until_fail": 0}, "less than once"),
        ({"bisect": "test_a"}, "it is a leg that ran no tests in an order of ours"),
        ({"until_fail": 2, "bisect": "test_a"}, "two questions"),
    ],
)
def test_what_cannot_be_asked_of_an_item_is_refused(
    small_repository: Repository,
    ran: Callable[[Repository], Path],
    asked: dict[str, Any],
    words: str,
) -> None:
    run = ran(small_repository)
    harness, path = load(small_repository.root), run / "count.plain"

    with pytest.raises(HarnessError, match=words):
        reproduce_item(harness, path, Console(), invocation="", **asked)

    assert small_repository.run_folders() == {run}


def test_the_tests_that_poison_another_are_found_and_their_line_replays_just_these(
    small_repository: Repository,
) -> None:
    small_repository.commit(EXPECTED)
    code, printed = small_repository.exacthead("unit")
    assert code == 1
    line = reproduction(printed)
    runs = small_repository.run_folders()

    code, printed = small_repository.exacthead("reproduce", *line, "--bisect-order", "test_last")

    assert code == 1
    last = "unit/sums/test_3.py::test_last"
    least = ["unit/sums/test_1.py::test_a", "unit/sums/test_2.py::test_c"]
    said = re.search(r"bisect: (.+) \((\d+) probes\)", printed)
    assert said is not None, printed
    assert said[1] == f"{last} failed after {' and '.join(least)}, passed alone"
    assert int(said[2]) == len(re.findall("exacthead: probe ", printed)) <= 12
    (run,) = small_repository.run_folders() - runs
    item = read(run / "plan.json")["items"][0]
    assert [nodeid for group in item["shard"]["groups"] for nodeid in group] == [*least, last]

    code, printed = small_repository.exacthead("reproduce", *reproduction(printed))
    assert code == 1
    assert "differs" not in printed
    assert printed.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"


def test_an_interrupted_search_leaves_nothing(small_repository: Repository, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    small_repository.commit(
        {
            "unit/sums/test_sums.py": (
                "import pathlib, time\n"
                "def test_a():\n"
                f"    time.sleep(600 * pathlib.Path({str(slow)!r}).exists())\n"
                "def test_last():\n    pass\n"
            )
        }
    )
    small_repository.exacthead("unit")
    run = small_repository.run_folder()
    slow.touch()
    asked = (f"runs/{run.name}/unit.sums", "--bisect-order", "test_last")

    with small_repository.start("reproduce", *asked, TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "probe 1: " in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert process.returncode == 130, rest
    assert small_repository.run_folders() == {run}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkout", "slow"]


def test_what_was_special_about_a_run_is_in_its_plan_and_is_replayed(
    small_repository: Repository,
) -> None:
    harness = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    suite = '[suites.sums]\narguments = ["--opt-in"]\nenvironment = { OPTED = "in" }\n'
    small_repository.commit(
        {
            "ci/harness.toml": harness.replace("[suites.sums]\n", suite),
            "unit/sums/conftest.py": (
                "def pytest_addoption(parser):\n"
                "    parser.addoption('--opt-in', action='store_true')\n"
                "    parser.addoption('--also')\n"
            ),
            "unit/sums/test_sums.py": (
                "import os\n"
                "def test_flags(request):\n"
                "    print(request.config.getoption('--also'), os.environ['OPTED'])\n"
                "    assert not request.config.getoption('--opt-in')\n"
            ),
        }
    )
    code, printed = small_repository.exacthead("unit", "--pytest", "--also='by hand'")
    assert code == 1
    first = read(small_repository.run_folder() / "plan.json")
    # What is declared or asked for now is not what that run had.
    small_repository.commit({"ci/harness.toml": harness})

    code, printed = small_repository.exacthead("reproduce", *reproduction(printed))

    assert code == 1
    again = small_repository.run_folder()
    (item,) = read(again / "plan.json")["items"]
    assert [item] == first["items"]
    assert item["environment"] == {"OPTED": "in"}
    assert item["shard"]["arguments"] == ["--opt-in", "--also=by hand"]
    assert "by hand in" in (again / "items/unit.sums/junit.xml").read_text(encoding="utf-8")
