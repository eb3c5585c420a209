"""Runs of several items at once, ended in the middle, and gone on with."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.runs.folder import RunFolder, State
from exacthead.verdict import Kind
from unit.exacthead.conftest import COUNT, HARNESS

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

LEGS = "".join(f'\n[jobs.count.legs.{leg}]\nworkers = {{ policy = "plain" }}\n' for leg in "abc")
# Each leg notes its start; `b` and `c` wait for a file that a test makes when it wants them to end.
SCRIPT = f"""
leg=$1
echo "$leg $$" >>.cache/started
echo "this is $leg"
if [ "$leg" = b ] || [ "$leg" = c ]; then
    touch "$EXACTHEAD_ARTIFACTS/mine"
    while [ ! -e .cache/go ]; do sleep 0.05; done
fi
{COUNT}
"""


@pytest.fixture
def three_legs(small_repository: Repository) -> Repository:
    text = HARNESS.replace('[jobs.count.legs.plain]\nworkers = { policy = "plain" }', "") + LEGS
    small_repository.commit({"ci/harness.toml": text, "functional/count.sh": SCRIPT})
    (small_repository.root / ".cache").mkdir(exist_ok=True)
    return small_repository


def started(repository: Repository) -> list[tuple[str, int]]:
    path = repository.root / ".cache/started"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(line.split()[0], int(line.split()[1])) for line in lines]


def begin(repository: Repository, legs: int, *arguments: str) -> Any:
    """A run of the job in which so many legs have begun, and leg `a` has its result."""
    process = repository.start("functional", "count", *arguments)
    deadline = time.monotonic() + 60
    done = repository.root / "runs"
    while time.monotonic() < deadline:
        if len(started(repository)) >= legs and list(done.glob("*/items/count.a/result.json")):
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate()[0])


def kinds(folder: RunFolder) -> dict[str, Kind]:
    return {each.item_id: each.verdict.kind for each in folder.results()}


def go(repository: Repository) -> None:
    (repository.root / ".cache/go").touch()


def test_legs_run_at_once_and_each_is_shown_as_one_block(three_legs: Repository) -> None:
    go(three_legs)

    code, printed = three_legs.exacthead("functional", "count", "--jobs", "auto")

    assert code == 0, printed
    assert printed.splitlines()[-1] == "6 passed, 0 failed, 0 skipped"
    for leg in "abc":
        block = (
            rf"(?m)^\[\d/3\] count\.{leg}: passed in [\d.]+ s\n  \| this is {leg}\n  \| counting"
        )
        assert re.search(block, printed), printed
    plan = json.loads((three_legs.run_folder() / "plan.json").read_text(encoding="utf-8"))
    assert [(item["cpus"], item["memory_gb"]) for item in plan["items"]] == 3 * [(1, 1.0)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_run_leaves_nothing_behind_and_goes_on_where_it_was(
    three_legs: Repository, number: signal.Signals
) -> None:
    # Leg `a` has ended, `b` runs, `c` waits for a place.
    process = begin(three_legs, 2, "--jobs", "1")
    process.send_signal(number)
    printed = process.communicate(timeout=60)[0]
    folder = RunFolder(three_legs.run_folder())
    deadline = time.monotonic() + 10
    pids = [pid for _, pid in started(three_legs)]
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    if number is signal.SIGINT:
        assert process.returncode == 130
        assert folder.state() is State.INTERRUPTED
        wanted = f"python -m exacthead reproduce --resume runs/{folder.run_id}"
        assert wanted in " ".join(printed.split())
        assert wanted in folder.summary.read_text(encoding="utf-8")
    else:
        assert folder.state() is State.ABANDONED
    plan = (folder.path / "plan.json").read_bytes()
    first = folder.item_path("count.a").result.read_bytes()

    go(three_legs)
    again = ("reproduce", "--resume", f"runs/{folder.run_id}", "--jobs", "2")
    code, printed = three_legs.exacthead(*again)

    assert code == 0, printed
    assert "1 of 3 items have their verdict" in printed
    assert printed.splitlines()[-1] == "6 passed, 0 failed, 0 skipped"
    assert three_legs.run_folders() == {folder.path}
    assert (folder.path / "plan.json").read_bytes() == plan
    assert folder.item_path("count.a").result.read_bytes() == first
    assert kinds(folder) == dict.fromkeys(["count.a", "count.b", "count.c"], Kind.PASSED)
    assert folder.state() is State.PASSED
    assert sorted(leg for leg, _ in started(three_legs)) == ["a", "b", "b", "c"]
    # What the interrupted leg has left is kept, and is no part of its new result.
    assert (folder.path / "interrupted/count.b/1/artifacts/mine").exists()
    assert "Left to run" not in folder.summary.read_text(encoding="utf-8")

    code, printed = three_legs.exacthead(*again)
    assert code == 2
    assert "every item has its verdict" in printed


def test_ctrl_c_ends_items_that_run_at_once(three_legs: Repository) -> None:
    process = begin(three_legs, 3, "--jobs", "3")
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[0]

    assert process.returncode == 130, printed
    assert not [pid for _, pid in started(three_legs) if Path(f"/proc/{pid}").exists()]
    assert kinds(RunFolder(three_legs.run_folder())) == {
        "count.a": Kind.PASSED,
        "count.b": Kind.INTERRUPTED,
        "count.c": Kind.INTERRUPTED,
    }


def test_what_fail_fast_left_out_can_be_run_later_and_what_was_red_stays_so(
    small_repository: Repository,
) -> None:
    legs = HARNESS + LEGS
    script = f'[ "$1" != a ] || exit 3\n{COUNT}'
    small_repository.commit({"ci/harness.toml": legs, "functional/count.sh": script})
    asked = ("functional", "count", "--leg", "plain", "--leg", "a", "--leg", "b")

    code, printed = small_repository.exacthead(*asked, "--fail-fast")
    assert code == 1, printed
    folder = RunFolder(small_repository.run_folder())
    assert kinds(folder) == {
        "count.plain": Kind.PASSED,
        "count.a": Kind.FAILED,
        "count.b": Kind.NOT_RUN,
    }

    code, printed = small_repository.exacthead("reproduce", "--resume", str(folder.path))
    assert code == 1, printed
    assert kinds(folder) == {
        "count.plain": Kind.PASSED,
        "count.a": Kind.FAILED,
        "count.b": Kind.PASSED,
    }
    # In the plan's order, whoever ran when.
    rows = re.findall(r"(?m)^\| (count\\?\.\w+) \|", folder.summary.read_text(encoding="utf-8"))
    assert [row.replace("\\", "") for row in rows[:3]] == ["count.plain", "count.a", "count.b"]


def test_a_run_of_another_checkout_is_not_gone_on_with(three_legs: Repository) -> None:
    process = begin(three_legs, 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    run = str(three_legs.run_folder())

    three_legs.write({"fixtures/numbers.jsonl": "[2]\n"})
    code, printed = three_legs.exacthead("reproduce", "--resume", run)
    assert code == 2
    assert re.search(r"the checkout is \w+-dirty, the run was of \w+, with other content", printed)

    three_legs.commit({"fixtures/numbers.jsonl": "[2]\n"})
    code, printed = three_legs.exacthead("reproduce", "--resume", run)
    assert code == 2
    assert "check out the same, or make a new run" in printed


def test_a_run_that_still_runs_is_not_run_twice(three_legs: Repository) -> None:
    process = begin(three_legs, 2)
    try:
        code, printed = three_legs.exacthead("reproduce", "--resume", str(three_legs.run_folder()))
        assert code == 2
        assert "it still runs" in printed
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("reproduce",), "give one of them"),
        (("reproduce", "runs/x/i", "--resume", "runs/x"), "give one of them"),
        (("reproduce", "runs/x/i", "--jobs", "2"), "--fail-fast and --notify with --resume"),
        (("reproduce", "--resume", "runs/x", "--until-fail", "2"), "with RUN/ITEM"),
        (("reproduce", "--resume", "runs/x"), "no run folder there"),
        (("unit", "--jobs", "0"), "'0' is neither a number from 1 on nor auto"),
        (("unit", "--jobs", "many"), "'many' is neither"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    small_repository: Repository, arguments: tuple[str, ...], words: str
) -> None:
    code, printed = small_repository.exacthead(*arguments)

    assert code == 2
    assert words in printed


def test_shards_of_a_suite_run_at_once_and_are_gone_on_with(small_repository: Repository) -> None:
    wait = (
        "import pathlib, time\n\n"
        "def test_it() -> None:\n"
        "    pathlib.Path('.cache/begun').touch()\n"
        "    while not pathlib.Path('.cache/go').exists(): time.sleep(0.05)\n"
    )
    small_repository.commit({"unit/sums/test_wait.py": wait})
    process = small_repository.start("unit", "--shards", "2", "--jobs", "2")
    deadline = time.monotonic() + 60
    quick = small_repository.root / "runs"
    begun = small_repository.root / ".cache/begun"
    while time.monotonic() < deadline:
        if begun.exists() and list(quick.glob("*/items/*/result.json")):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[0]
    assert process.returncode == 130, printed
    folder = RunFolder(small_repository.run_folder())
    assert sorted(kinds(folder).values()) == [Kind.INTERRUPTED, Kind.PASSED]

    go(small_repository)
    code, printed = small_repository.exacthead("reproduce", "--resume", str(folder.path))

    assert code == 0, printed
    assert printed.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"
