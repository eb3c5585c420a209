from __future__ import annotations

import os
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from exacthead.errors import HarnessError
from exacthead.history.schema import connect
from exacthead.report.dashboard import curves, pages, rows
from exacthead.report.dashboard.build import build
from exacthead.report.dashboard.data import Data, read
from exacthead.report.dashboard.grid import HEADS, grids
from exacthead.triage.known import Known, KnownFailure
from unit.exacthead.report.sample import HOSTILE
from unit.exacthead.report.synthetic import fill, head, nodeid, run_name
from unit.exacthead.report.test_pages import Page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

RUNS, TESTS = 70, 60


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    opened = connect(tmp_path_factory.mktemp("history") / "exacthead.sqlite")
    fill(opened, RUNS, TESTS)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def data(database: sqlite3.Connection) -> Data:
    return read(database, RUNS)


@pytest.fixture(scope="module")
def written(database: sqlite3.Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    known = KnownFailure(
        test=nodeid(4).partition("[")[0],
        reason="the cache is cold",
        issue="https://tracker.example/issues/7",
        owner="policy team",
        expires=date(2030, 1, 31),
    )
    into = tmp_path_factory.mktemp("out") / "dashboard"
    build(database, into, runs_address="../runs", known=Known((known,)))
    return into


def text(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def test_slow_slowing_flaky_and_red_tests_are_those_that_were_made_so(data: Data) -> None:
    (slower,) = rows.slowing(data.tests, data.runs)
    assert slower.test.nodeid == nodeid(1)
    assert slower.run.number == RUNS // 2
    assert slower.change.before == pytest.approx(2.0, rel=0.03)
    assert slower.change.after == pytest.approx(3.0, rel=0.03)
    assert [each.nodeid for each in rows.flakiest(data)] == [nodeid(2)]
    assert [each.nodeid for each in data.tests if each.red] == [nodeid(3)]
    typical = [each.typical or 0.0 for each in rows.slowest(data.tests)]
    assert typical == sorted(typical, reverse=True)
    assert len(typical) == TESTS - 1  # without the one that never passes


def test_stretches_tell_since_when(data: Data) -> None:
    red = next(each for each in data.tests if each.red)
    found = rows.stretches(red, data.runs)
    since = RUNS * 3 // 4
    assert [(each.verdict, each.count, each.first.number, each.last.number) for each in found] == [
        ("failed", RUNS - since, since, RUNS - 1),
        ("passed", since, 0, since - 1),
    ]


def test_metrics_are_marked_where_their_level_changed(data: Data) -> None:
    (shift,) = curves.shifts(data.metrics, data.runs, 10)
    assert (shift.metric, shift.run.number) == ("train/loss", RUNS // 2)
    charts = curves.by_item(data.metrics, data.runs)[0].charts
    assert [each.title for each in charts] == ["timing/step", "train/loss"]
    assert charts[1].note.startswith(f"change at {head(RUNS // 2)[:10]}: 0.4")


def test_the_grid_has_the_newest_head_first_and_goes_on_to_the_oldest(data: Data) -> None:
    first, second = grids(data, "../runs")
    assert [len(first.columns), len(second.columns)] == [HEADS, RUNS - HEADS]
    assert first.columns[0].run.number == RUNS - 1
    assert second.columns[-1].run.number == 0
    row = next(each for each in first.rows if each.item == "unit.part_0")
    assert [each.verdict for each in row.cells if each][:2] == ["failed", "failed"]
    assert row.cells[0] is not None
    assert row.cells[0].address == f"../runs/{run_name(RUNS - 1)}/items/unit.part_0/index.html"
    assert all(cell is None or not cell.address for cell in grids(data, "")[0].rows[0].cells)


def test_fewer_runs_can_be_shown(database: sqlite3.Connection) -> None:
    few = read(database, 5)
    assert [run.name for run in few.runs] == [run_name(n) for n in range(RUNS - 5, RUNS)]
    assert {len(test.runs) for test in few.tests} == {5}
    assert {fault.run.number for fault in few.faults} == set(range(5))


def test_every_test_has_a_page_and_every_link_leads_somewhere(written: Path) -> None:
    assert len(list(written.glob("tests/*/*.html"))) == TESTS
    for path in written.rglob("*.html"):
        page = text(path)
        for link in page.links():
            file, _, fragment = unquote(link).partition("#")
            if file.startswith("./../runs/"):
                continue  # the runs themselves were never made
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            assert target.is_file(), (path, link)
            if fragment and file != "./":
                ids = {each.get("id") for _, each in text(target).tags}
                assert fragment in ids, (path, link)


def test_the_page_of_a_test_says_since_when_and_what_is_known(written: Path) -> None:
    red = text(written / rows.page_path(nodeid(3))).text
    assert "Failed in the last 18 runs" in red
    assert f"Red since head {head(52)[:10]}" in red
    assert f"18 runs; last green at {head(51)[:10]}" in red
    assert "assertion assert 1 == 2" in red
    known = text(written / rows.page_path(nodeid(4))).text
    assert "the cache is cold: https://tracker.example/issues/7 (policy team, until" in known
    assert "Known failure no" in red


def test_several_processes_write_the_same_pages(
    database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(database, tmp_path / "one", runs_address="", known=Known())
    monkeypatch.setattr(pages, "_SHARE", TESTS // 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    build(database, tmp_path / "three", runs_address="", known=Known())

    def held(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    assert held(tmp_path / "three") == held(tmp_path / "one")


def test_a_page_keeps_its_address_in_each_build() -> None:
    assert rows.page_path("u/test_a.py::test_b") == "tests/71/9fa235416b61ec3911.html"


def test_an_empty_history_has_a_dashboard_too(tmp_path: Path) -> None:
    database = connect(tmp_path / "exacthead.sqlite")
    page = build(database, tmp_path / "out", runs_address="", known=Known())
    database.close()
    assert "No run has ended yet" in text(page).text


def test_an_earlier_dashboard_is_replaced_as_a_whole_and_other_files_are_not(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    into = tmp_path / "out"
    build(database, into, runs_address="", known=Known(), last=1)
    (into / "old.html").touch()
    build(database, into, runs_address="", known=Known(), last=1)
    assert not (into / "old.html").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(HarnessError, match="it holds other files"):
        build(database, other, runs_address="", known=Known(), last=1)
    assert [each.name for each in other.iterdir()] == ["thesis.tex"]


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="can be written to"):
        build(database, tmp_path / "file" / "out", runs_address="", known=Known(), last=1)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_hostile_names_are_text(tmp_path: Path) -> None:
    database = connect(tmp_path / "exacthead.sqlite")
    fill(database, 3, 6)
    build(database, tmp_path / "tame", runs_address="../runs", known=Known())
    hostile = HOSTILE.encode("utf-8", "backslashreplace").decode()
    database.execute("UPDATE test SET nodeid = nodeid || ?, file = file || ?", (hostile, hostile))
    for table, column in (("item", "name"), ("run", "runner"), ("metric", "name"),
                          ("fault", "reason"), ("fault", "class"), ("item", "reason"),
                          ("build", "name"), ("build", "key")):  # fmt: skip
        # Names of ours.
        statement = f"UPDATE {table} SET {column} = {column} || ?"  # noqa: S608
        database.execute(statement, (hostile,))
    database.execute("INSERT INTO note VALUES (1, ?)", (hostile,))
    build(database, tmp_path / "wild", runs_address="../runs", known=Known())
    database.close()
    for path in (tmp_path / "wild").rglob("*.html"):
        page = text(path)
        assert {tag for tag, _ in page.tags} <= _tags(tmp_path / "tame") | {"details", "summary"}
        for tag, attributes in page.tags:
            assert not any(key.startswith("on") for key in attributes), (path, tag)
            if "src" in attributes:
                assert (attributes["src"] or "").startswith(("assets/", "../"))
        assert not any(link.lower().startswith("javascript") for link in page.links())


def _tags(folder: Path) -> set[str]:
    return {tag for path in folder.rglob("*.html") for tag, _ in text(path).tags}
