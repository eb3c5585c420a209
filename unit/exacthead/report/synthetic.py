"""A made-up history with known answers, written straight into the database.

Of its tests number 1 is slower by half from the middle on, number 2 is flaky in every tenth run,
number 3 fails from three quarters on, number 4 is a known failure; the others pass. The leg's
metric ``train/loss`` shifts in the middle.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from exacthead.history.packed import complete

if TYPE_CHECKING:
    import sqlite3

SUITES = 4
IN_A_FILE = 25
_START = datetime(2026, 3, 1, 6, tzinfo=UTC)


def head(number: int) -> str:
    """The commit of a run."""
    return f"{number + 1:08x}".rjust(40, "a")[-8:] + "c0ffee" * 5 + "00"


def run_name(number: int) -> str:
    """The id of a run."""
    return f"{_START + timedelta(hours=number):%Y%m%d-%H%M%S}-{head(number)[:12]}-{number:04x}"


def nodeid(number: int) -> str:
    """The name of a test."""
    file = number // IN_A_FILE
    return f"unit/part_{file % SUITES}/test_{file}.py::test_number_{number}[case-{number % 7}]"


def verdict(test: int, run: int, runs: int) -> tuple[str, bool]:
    """What becomes of a test in a run, and whether a fresh process disagreed."""
    if test == 2:
        return "passed", run % 10 == 5
    if test == 3 and run >= runs * 3 // 4:
        return "failed", False
    return ("quarantined" if test == 4 else "passed"), False


def fill(database: sqlite3.Connection, runs: int, tests: int) -> None:
    """Write the history of ``runs`` clean heads with ``tests`` tests each and one leg."""
    noise = random.Random(7)  # noqa: S311 - times of tests are no secrets
    times = [round(noise.lognormvariate(-3, 1.5), 4) for _ in range(tests)]
    times[1] = 2.0
    jitter = [noise.uniform(0.97, 1.03) for _ in range(1009)]
    database.execute("BEGIN")
    database.executemany(
        "INSERT INTO test VALUES (?, ?, ?)",
        [(each + 1, nodeid(each), nodeid(each).partition("::")[0]) for each in range(tests)],
    )
    database.executemany(
        "INSERT INTO metric VALUES (?, ?)", [(1, "train/loss"), (2, "timing/step")]
    )
    for run in range(runs):
        _run(database, run, runs, times, jitter)
    complete(database)
    database.execute("COMMIT")


def _run(
    database: sqlite3.Connection, run: int, runs: int, times: list[float], jitter: list[float]
) -> None:
    red = len(times) > 3 and run >= runs * 3 // 4
    started = _START + timedelta(hours=run)
    state = "failed" if red else "passed"
    database.execute(
        "INSERT INTO run VALUES (?, ?, ?, ?, ?, 0, 'this machine', 'cpu', ?, 600, '2 x CPU', '')",
        (run + 1, run_name(run), started.isoformat(), head(run), head(run)[::-1], state),
    )
    first = run * (SUITES + 1) + 1
    for part in range(SUITES):
        _item(
            database,
            first + part,
            run,
            f"unit.part_{part}",
            "suite",
            state if part == 0 else "passed",
        )
        rows = []
        for test in range(len(times)):
            if test // IN_A_FILE % SUITES != part:
                continue
            kind, flaky = verdict(test, run, runs)
            slower = 1.5 if test == 1 and run >= runs // 2 else 1.0
            seconds = times[test] * slower * jitter[(test * 31 + run * 17) % len(jitter)]
            rows.append((first + part, test + 1, kind, round(seconds, 4), 2 if flaky else 1, flaky))
        database.executemany("INSERT INTO outcome VALUES (?, ?, ?, ?, ?, ?)", rows)
    if red:
        database.execute(
            "INSERT INTO fault VALUES (NULL, ?, 4, 'failed', 'signature', 'assert 1 == 2',"
            " 'assertion', 'assertion', 'assertion: 1 == 2')",
            (first,),
        )
    leg = first + SUITES
    _item(database, leg, run, "gym_training.flag_off", "leg", "passed")
    loss = (0.5 if run >= runs // 2 else 0.4) * jitter[run * 13 % len(jitter)]
    database.execute(
        "INSERT INTO contract_check VALUES (?, 'the loss is finite', 'finite', 'train/loss',"
        " 'passed', '', ?, 'finite')",
        (leg, str(loss)),
    )
    for metric, value in ((1, loss), (2, 5.0 * jitter[run * 7 % len(jitter)])):
        database.execute(
            "INSERT INTO measurement VALUES (?, ?, 1, ?, ?, ?, ?)", (leg, metric, *(value,) * 4)
        )
    database.execute(
        "INSERT INTO coverage VALUES (?, 'src/a.py', ?, 1000)", (run + 1, 700 + run % 50)
    )
    built = run % 20 == 0
    database.execute(
        "INSERT INTO build VALUES (?, 'worker', 'unit', ?, ?, ?)",
        (
            run + 1,
            f"{run // 20:064x}",
            "built" if built else "reused",
            21.0 + run % 3 if built else 0.1,
        ),
    )


def _item(  # noqa: PLR0917 - the columns of a row
    database: sqlite3.Connection, number: int, run: int, name: str, kind: str, state: str
) -> None:
    reason = "" if state == "passed" else "1 of its tests failed"
    database.execute(
        "INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, 1, 120, NULL, 400, '')",
        (
            number,
            run + 1,
            name,
            kind,
            name.partition(".")[2] if kind == "suite" else "",
            state,
            reason,
        ),
    )
