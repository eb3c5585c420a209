"""exacthead.sqlite: from real run folders, brought up to date, made again, migrated, refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from exacthead.contracts.evaluate import CheckResult, ContractResult, write_json
from exacthead.errors import HarnessError
from exacthead.history.database import NAME, open_history, rebuild, sync
from exacthead.history.folders import History
from exacthead.history.schema import APPLICATION, STEPS, VERSION, connect
from exacthead.runs.folder import State
from exacthead.runs.provenance import WorkerUse
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import COMMIT, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unit.exacthead.triage.making import Runs

B = "u/test_a.py::test_b"
TABLES = (
    *("run", "item", "test", "outcome", "fault", "contract_check", "metric", "measurement"),
    *("coverage", "build", "note", "packed"),
)


@pytest.fixture
def database(runs: Runs) -> Iterator[sqlite3.Connection]:
    """The history beside the runs, empty at first."""
    with closing(open_history(runs.folder)) as connection:
        yield connection


def everything(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608
        for table in TABLES
    }


def coverage(path: Path, hits: str) -> None:
    lines = "".join(f'<line number="{n}" hits="{hit}"/>' for n, hit in enumerate(hits, 1))
    path.write_text(
        f'<coverage><packages><class filename="a.py"><lines>{lines}</lines></class></packages>'
        "</coverage>",
        encoding="utf-8",
    )


def full_run(runs: Runs) -> str:
    """A run with everything that a folder can hold; returns its id."""
    folder = runs.add(
        {"unit.own": [outcome(B, Kind.PASSED), outcome("u/test_a.py::c", Kind.FAILED)]},
        {"train.plain": Verdict(Kind.FAILED, "1 of 2 checks failed; first 'loss': 3 is not < 2")},
        state=State.FAILED,
    )
    leg = folder.item("train.plain")
    checks = (
        CheckResult("loss", "between", "train/loss", Verdict(Kind.FAILED, "3 is not < 2"), "3", ""),
        CheckResult("steps", "count", "train/loss", Verdict(Kind.PASSED), "3", "= 3"),
    )
    write_json(ContractResult("train", checks), leg.contract)
    lines = [{"step": n, "train/loss": value} for n, value in enumerate([1.0, 2.5, 3.0])]
    leg.metrics.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    coverage(folder.path / "coverage.xml", "110")
    used = folder.read_provenance()
    worker = WorkerUse(name="policy", key="k", flavour="cpu", interpreter="3.13", how="built")
    folder.write_provenance(
        used.model_copy(update={"workers": (worker.model_copy(update={"seconds": 12.5}),)})
    )
    return folder.run_id


def test_a_run_is_taken_in_whole(runs: Runs, database: sqlite3.Connection) -> None:
    name = full_run(runs)

    assert sync(database, History(runs.folder)) == [name]

    one = database.execute
    assert one("SELECT name, head, dirty, runner, state, seconds FROM run").fetchall() == [
        (name, COMMIT, 0, "small", "failed", 2.0)
    ]
    assert one("SELECT name, kind, verdict FROM item ORDER BY name").fetchall() == [
        ("train.plain", "leg", "failed"),
        ("unit.own", "suite", "failed"),
    ]
    assert one("SELECT nodeid, verdict, seconds FROM test_outcomes ORDER BY nodeid").fetchall() == [
        ("u/test_a.py::c", "failed", 0.25),
        (B, "passed", 0.25),
    ]
    assert one("SELECT nodeid, class, grouping FROM faults ORDER BY nodeid").fetchall() == [
        (None, "contract", "contract: loss"),
        ("u/test_a.py::c", "assertion", "assertion: assert 1 == 2"),
    ]
    assert one("SELECT name, verdict, observed FROM contract_check").fetchall() == [
        ("loss", "failed", "3"),
        ("steps", "passed", "3"),
    ]
    assert one("SELECT metric, points, last, median, least, most FROM measurements").fetchall() == [
        ("train/loss", 3, 3.0, 2.5, 1.0, 3.0)
    ]
    assert one("SELECT file, covered, total FROM coverage").fetchall() == [("a.py", 2, 3)]
    assert one("SELECT kind, name, how, seconds FROM build").fetchall() == [
        ("worker", "policy", "built", 12.5)
    ]
    assert one("PRAGMA foreign_key_check").fetchall() == []
    assert one("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_is_there_is_not_read_again(runs: Runs, database: sqlite3.Connection) -> None:
    full_run(runs)
    sync(database, History(runs.folder))

    assert sync(database, History(runs.folder)) == []


def test_a_run_that_was_written_again_is_taken_in_again(
    runs: Runs, database: sqlite3.Connection
) -> None:
    folder = runs.add({"unit.own": [outcome(B, Kind.PASSED)]})
    sync(database, History(runs.folder))
    folder.write_state(State.FAILED, {"unit.own": "passed"})

    assert sync(database, History(runs.folder)) == [folder.run_id]
    assert database.execute("SELECT state FROM run").fetchall() == [("failed",)]
    assert database.execute("SELECT count(*) FROM outcome").fetchone() == (1,)


def test_a_run_that_goes_on_waits(runs: Runs, database: sqlite3.Connection) -> None:
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]}, state=State.RUNNING)

    assert sync(database, History(runs.folder)) == []


def test_a_run_whose_folder_is_gone_stays(runs: Runs, database: sqlite3.Connection) -> None:
    full_run(runs)
    sync(database, History(runs.folder))
    before = everything(database)
    (folder,) = [path for path in runs.folder.iterdir() if path.is_dir()]
    shutil.rmtree(folder)

    assert sync(database, History(runs.folder)) == []
    assert everything(database) == before


def test_it_is_made_again_from_the_folders_alone(runs: Runs) -> None:
    full_run(runs)
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]})
    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))
        before = everything(connection)
    (runs.folder / NAME).unlink()

    assert len(rebuild(History(runs.folder))) == 2
    with closing(open_history(runs.folder)) as connection:
        assert everything(connection) == before


def test_a_damaged_file_is_refused_and_made_again(runs: Runs) -> None:
    full_run(runs)
    (runs.folder / NAME).write_bytes(b"no database at all" * 100)

    with pytest.raises(HarnessError, match="made again from the run folders"):
        open_history(runs.folder)
    assert len(rebuild(History(runs.folder))) == 1
    with closing(open_history(runs.folder)) as connection:
        assert connection.execute("SELECT count(*) FROM run").fetchone() == (1,)


def test_what_cannot_be_read_costs_itself_and_is_kept_as_a_note(
    runs: Runs, database: sqlite3.Connection
) -> None:
    folder = runs.add({"unit.a": [], "unit.b": [outcome(B, Kind.PASSED)]})
    folder.item("unit.a").junit.write_text("<broken", encoding="utf-8")
    (folder.path / "coverage.xml").write_text("<broken", encoding="utf-8")
    (runs.add().path / "plan.json").unlink()
    history = History(runs.folder)

    sync(database, history)

    assert database.execute("SELECT nodeid FROM test").fetchall() == [(B,)]
    notes = [text for (text,) in database.execute("SELECT text FROM note")]
    assert len(notes) == 2
    assert "unit.a" in notes[0]
    assert "coverage.xml" in notes[1]
    assert len(history.notes) == 3


def test_two_cases_of_one_test_count_once_and_the_fault_wins(
    runs: Runs, database: sqlite3.Connection
) -> None:
    runs.add({"unit.a": [outcome(B, Kind.FAILED), outcome(B, Kind.PASSED)]})

    sync(database, History(runs.folder))

    assert database.execute("SELECT verdict FROM outcome").fetchall() == [("failed",)]


SYNC = """
import sys
from pathlib import Path
from exacthead.history.database import open_history, sync
from exacthead.history.folders import History
runs = Path(sys.argv[1])
sync(open_history(runs), History(runs))
"""


def test_several_processes_at_once_take_each_run_in_once(runs: Runs) -> None:
    run = runs.add({"unit.own": [outcome(f"u/t.py::t{n}", Kind.PASSED) for n in range(50)]})
    runs.again(run, 5)

    started = [
        subprocess.Popen([sys.executable, "-c", SYNC, str(runs.folder)], stderr=subprocess.PIPE)
        for _ in range(2)
    ]

    assert [(each.communicate()[1], each.returncode) for each in started] == [(b"", 0)] * 2
    with closing(open_history(runs.folder)) as connection:
        assert connection.execute("SELECT count(*) FROM run").fetchone() == (6,)
        assert connection.execute("SELECT count(*) FROM outcome").fetchone() == (300,)
        assert connection.execute("SELECT count(*) FROM test").fetchone() == (50,)


@pytest.mark.parametrize("version", range(VERSION))
def test_every_older_version_is_migrated_with_what_it_holds(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.sqlite"
    with closing(connect(path, STEPS[:version])) as old:
        if version:
            old.execute("INSERT INTO test VALUES (1, 'a.py::b', 'a.py')")

    with closing(connect(path)) as new, closing(connect(tmp_path / "new.sqlite")) as fresh:
        schema = "SELECT sql FROM sqlite_master ORDER BY name"
        assert new.execute(schema).fetchall() == fresh.execute(schema).fetchall()
        assert new.execute("PRAGMA user_version").fetchone() == (VERSION,)
        kept = new.execute("SELECT nodeid FROM test").fetchall()
        assert kept == ([("a.py::b",)] if version else [])


def test_a_step_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    connect(path, STEPS[:1]).close()

    with pytest.raises(HarnessError, match="syntax error"):
        connect(path, (STEPS[0], "CREATE TABLE good (a);\nCREATE NONSENSE;"))
    with closing(connect(path, STEPS[:1])) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
        assert old.execute("SELECT name FROM sqlite_master WHERE name = 'good'").fetchall() == []


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    connect(path, (*STEPS, "CREATE TABLE later (a)")).close()

    with pytest.raises(HarnessError, match=f"version {VERSION + 1}; this harness knows"):
        connect(path)


def test_another_program_s_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (a)")

    with pytest.raises(HarnessError, match="another program's"):
        connect(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
        assert other.execute("PRAGMA application_id").fetchone() != (APPLICATION,)


def test_a_runs_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")

    with pytest.raises(HarnessError, match="the history"):
        open_history(tmp_path / "runs")


def test_a_reader_of_any_database_can_browse_it(runs: Runs, database: sqlite3.Connection) -> None:
    """As Datasette does: read-only, every table and view, rows by their keys, foreign keys."""
    full_run(runs)
    sync(database, History(runs.folder))

    with closing(sqlite3.connect(f"file:{runs.folder / NAME}?mode=ro", uri=True)) as reader:
        names = reader.execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"
        ).fetchall()
        assert {name for name, kind in names if kind == "table"} == set(TABLES)
        for name, _ in names:
            assert reader.execute(f"SELECT count(*) FROM {name}").fetchone()[0] >= 0  # noqa: S608
        for table in TABLES:
            for _, _, target, *_ in reader.execute(f"PRAGMA foreign_key_list({table})"):
                assert target in TABLES
