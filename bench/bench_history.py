"""History: how long it takes to take runs in and to ask it, against only reading their files.

    PYTHONPATH=ci:. python bench/bench_history.py [--tests N] [--runs N] [--each N]

First one run of N tests (100,000) in two shards: reading its JUnit files, taking it into an empty
history, and building its report. Then N runs (200) of 10,000 tests each, one shard, half of a
percent of them failing and all times with noise: taking one more in, and the questions that a
dashboard asks. Seconds are processor seconds of this process, which a busy machine changes less;
memory is the process's peak. Ratios are to reading the JUnit files alone.

The exit code is 1 when a run of 100,000 tests takes more than 5 s, when all the questions together
take more than 5 s (half of what a dashboard may take), or when memory reaches 1 GB.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.classes.rules import load_rules
from exacthead.history import rows, tests, trends
from exacthead.history.database import NAME, open_history, sync
from exacthead.history.folders import History
from exacthead.junit import read_junit
from exacthead.report.dashboard import data
from exacthead.report.read import read_item
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import Runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.runs.folder import RunFolder

MOST_INGEST_S = 5.0
MOST_QUESTIONS_S = 5.0
MOST_MB = 1000.0
IN_A_FILE = 25
FAILING = 200


def results(count: int, seed: int) -> list[TestResult]:
    """Tests of which one in two hundred fails, each time another one, with noise in their times."""
    draw = random.Random(seed)  # noqa: S311 - nothing is kept secret with it
    made = []
    for number in range(count):
        nodeid = f"unit/part_{number % 9}/test_{number // IN_A_FILE}.py::test_it[{number}]"
        seconds = (number % 50 + 1) / 100 * draw.uniform(0.9, 1.1)
        failed = (number + seed) % FAILING == 0
        verdict = Verdict(Kind.FAILED, f"assert {number} == 0") if failed else Verdict(Kind.PASSED)
        text = "def test_it():\n" + "    line\n" * 30 + f"E       assert {number} == 0"
        causes = (Cause("call", verdict, text),) if failed else ()
        made.append(TestResult(nodeid, (Attempt(1, round(seconds, 3), causes),), verdict))
    return made


def timed(what: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    start = time.process_time()
    what()
    return time.process_time() - start


def say(name: str, seconds: float, unit: float) -> None:
    """One row."""
    print(f"{name:<52} {seconds:>8.2f} s {seconds / unit:>7.2f}")


def in_two_shards(folder: Path, count: int) -> RunFolder:
    """One run in a folder of its own."""
    every = results(count, 1)
    half = count // 2
    return Runs(folder).add({"unit.own.1of2": every[:half], "unit.own.2of2": every[half:]})


def one_run(folder: Path, count: int) -> float:
    """One large run; returns the seconds of taking it in."""
    # By another process, or this one's memory would be in the disorder of having made it.
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        run = other.submit(in_two_shards, folder, count).result()
    files = [run.item(name).junit for name in ("unit.own.1of2", "unit.own.2of2")]
    unit = timed(lambda: [sum(1 for _ in read_junit(path)) for path in files])
    rules = load_rules()
    with closing(open_history(folder)) as connection:
        ingest = timed(lambda: sync(connection, History(folder)))
        kept = connection.execute("SELECT count(*) FROM outcome").fetchone()[0]
    report = timed(lambda: [read_item(path, "item", "again", rules) for path in files])
    print(f"one run of {count} tests")
    say("reading its JUnit files", unit, unit)
    say("taking it into the history", ingest, unit)
    say("reading it for its report", report, unit)
    if kept != count:
        print(f"LOST: {kept} of {count} tests are in the history")
        return float("inf")
    return ingest * 100_000 / count


def many_runs(folder: Path, count: int, each: int) -> float:
    """A long history; returns the seconds of all questions together."""
    made = Runs(folder)
    first = [made.add({"unit.own": results(each, seed)}) for seed in range(min(count, 8))]
    unit = timed(lambda: sum(1 for _ in read_junit(first[0].item("unit.own").junit)))
    for number in range(len(first), count):
        linked(first[number % len(first)], made)
    with closing(open_history(folder)) as connection:
        whole = timed(lambda: sync(connection, History(folder)))
        size = (folder / NAME).stat().st_size / 1e6
        print(f"\n{count} runs of {each} tests, {size:.0f} MB")
        say("reading one run's JUnit file", unit, unit)
        say("taking in a run (mean)", whole / count, unit)
        say("finding that nothing is new", timed(lambda: sync(connection, History(folder))), unit)
        among = rows.runs(connection)
        every = rows.runs(connection, most=count)
        nodeid = "unit/part_0/test_0.py::test_it[0]"
        questions: dict[str, Callable[[], object]] = {
            "all that a dashboard shows of all runs": lambda: data.read(connection, count),
            f"items over the last {rows.WINDOW} runs": lambda: tests.read_items(connection, among),
            "metrics, times, coverage, builds of these": lambda: (
                trends.metrics(connection, among),
                trends.seconds(connection, among),
                trends.coverage(connection, among),
                trends.builds(connection, among),
            ),
            "one test over all runs": lambda: tests.read_tests(connection, every, [nodeid]),
        }
        spent = {name: timed(question) for name, question in questions.items()}
    for name, seconds in spent.items():
        say(name, seconds, unit)
    return sum(spent.values())


def linked(run: RunFolder, made: Runs) -> None:
    """The same run once more, its files shared; only its own state is another file."""
    target = made._next(run.run_id.split("-")[2]).path  # noqa: SLF001 - its counter names runs
    shutil.copytree(run.path, target, copy_function=os.link)


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--each", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        ingest = one_run(Path(temporary) / "one", options.tests)
        questions = many_runs(Path(temporary) / "many", options.runs, options.each)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\npeak memory {memory:.0f} MB; 100,000 tests {ingest:.2f} s; questions {questions:.2f} s"
    )
    missed = ingest > MOST_INGEST_S or questions > MOST_QUESTIONS_S or memory > MOST_MB
    if missed:
        print("a target is missed")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
