"""Numbers over many runs: contract metrics, times, coverage, builds; from real run folders."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from exacthead.history import trends
from exacthead.history.database import open_history, sync
from exacthead.history.folders import History
from exacthead.history.rows import runs as read_runs
from exacthead.runs.provenance import WorkerUse
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from unit.exacthead.triage.making import Runs

PASSED = Verdict(Kind.PASSED)
RUNS = 16


def add(runs: Runs, number: int, verdict: Verdict = PASSED, *, dirty: bool = False) -> None:
    """A run of one leg whose loss falls at the tenth head, and whose times stay."""
    run = runs.add(legs={"train.plain": verdict}, commit=f"{number:040x}", dirty=dirty)
    leg = run.item("train.plain")
    loss = (0.5 if number < 10 else 0.25) + number % 3 / 1000
    rows = [{"step": step, "train/loss": loss + step} for step in (-1, 0, 1)]
    rows = [{**row, "step": index} for index, row in enumerate(rows)]
    leg.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    hits = "".join(f'<line number="{n}" hits="{int(n <= number)}"/>' for n in range(1, 21))
    (run.path / "coverage.xml").write_text(
        f'<coverage><class filename="a.py">{hits}</class></coverage>', encoding="utf-8"
    )
    worker = WorkerUse(
        name="policy",
        key="k",
        flavour="cpu",
        interpreter="3",
        how="built" if number % 2 else "reused",
        seconds=float(number),
    )
    used = run.read_provenance()
    run.write_provenance(used.model_copy(update={"workers": (worker,)}))


@pytest.fixture
def database(runs: Runs) -> Iterator[sqlite3.Connection]:
    for number in range(RUNS):
        add(runs, number)
    add(runs, RUNS, dirty=True)
    add(runs, RUNS + 1, Verdict(Kind.NOT_RUN, "no worker"))
    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))
        yield connection


def test_a_contract_metric_is_marked_at_the_head_that_changed_it(
    database: sqlite3.Connection,
) -> None:
    among = read_runs(database)

    (loss,) = trends.metrics(database, among)

    assert loss.title == "train/loss of train.plain"
    # Each point is the median of the run's steps; the dirty run and the one that never was are out.
    assert len(loss.points) == RUNS
    assert loss.points[1].value == pytest.approx(0.501)
    (change,) = loss.changes
    assert among[loss.points[change.at].run].head == f"{10:040x}"
    assert change.before == pytest.approx(0.501)
    assert change.after == pytest.approx(0.251)


def test_times_of_passes_are_a_series_and_their_median_is_expected(
    database: sqlite3.Connection,
) -> None:
    among = read_runs(database)

    (seconds,) = trends.seconds(database, among)

    assert seconds.title == "seconds of train.plain"
    assert {point.value for point in seconds.points} == {1.5}
    assert seconds.changes == ()
    assert trends.expected(database, among) == {"train.plain": 1.5}


def test_the_coverage_of_each_run_is_a_series(database: sqlite3.Connection) -> None:
    coverage = trends.coverage(database, read_runs(database))

    assert [point.value for point in coverage.points] == [
        pytest.approx(100 * number / 20) for number in range(RUNS + 2)
    ]


def test_only_what_was_built_has_a_time_of_building(database: sqlite3.Connection) -> None:
    (policy,) = trends.builds(database, read_runs(database))

    assert policy.title == "seconds to have worker policy"
    assert [point.value for point in policy.points] == [float(n) for n in range(1, RUNS + 2, 2)]
