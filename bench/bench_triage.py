"""Triage: how much of a history each of its questions reads, as ratios to reading all of it.

    PYTHONPATH=ci:. python bench/bench_triage.py [--runs N] [--tests N]

The history is N runs of one clean head with two shards each; half of all tests are in each. A
question is asked three times and its best time counts. The targets: a question that ten runs answer
costs at most a third of a full reading of sixty, and looking for a test that no run has costs at
most a fifth. A target that is missed is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.history.folders import History
from exacthead.triage.base import compare_with_base
from exacthead.triage.known import Known
from exacthead.triage.leave import ready_to_leave
from exacthead.verdict import Kind
from unit.exacthead.triage.making import COMMIT, Runs, known_failure, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 3
ANSWERED, NOWHERE = 1 / 3, 1 / 5
IN_A_FILE = 25


def make(folder: Path, runs: int, tests: int) -> None:
    """Write the history: every fiftieth test fails."""
    results = [
        outcome(
            f"unit/part/test_{number // IN_A_FILE}.py::test_{number}",
            Kind.PASSED if number % 50 else Kind.FAILED,
        )
        for number in range(tests)
    ]
    half = tests // 2
    history = Runs(folder)
    first = history.add({"unit.own.1of2": results[:half], "unit.own.2of2": results[half:]})
    history.again(first, runs - 1)


def best(question: Callable[[], object]) -> float:
    """The shortest of some tries, in seconds."""
    spent = []
    for _ in range(TRIES):
        start = time.perf_counter()
        question()
        spent.append(time.perf_counter() - start)
    return min(spent)


def main() -> int:
    """Ask each question and print its ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--tests", type=int, default=800)
    options = parser.parse_args()
    passing = Known((known_failure("unit/part/test_0.py::test_1"),))
    nowhere = Known((known_failure("unit/gone/test_x.py::test_y"),))
    fault = outcome("unit/part/test_0.py::test_0", Kind.FAILED)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "runs"
        make(folder, options.runs, options.tests)
        full = best(lambda: list(History(folder)))
        questions: dict[str, tuple[Callable[[], object], float]] = {
            "headers of all runs": (lambda: list(History(folder).runs()), NOWHERE),
            "ready to leave, after ten runs": (
                lambda: ready_to_leave(passing, History(folder)),
                ANSWERED,
            ),
            "ready to leave, a test of no run": (
                lambda: ready_to_leave(nowhere, History(folder)),
                NOWHERE,
            ),
            "also red on base, one fault": (
                lambda: compare_with_base([fault], History(folder), COMMIT),
                ANSWERED,
            ),
        }
        print(f"{options.runs} runs of {options.tests} tests; all of it: {full:.2f} s = 1.000")
        missed = False
        for name, (question, most) in questions.items():
            ratio = best(question) / full
            missed |= ratio > most
            print(f"{name:<34} {ratio:>7.3f}  (at most {most:.3f})")
    if missed:
        print("a target is missed")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
