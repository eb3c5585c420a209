from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from exacthead.history.folders import History
from exacthead.runs.folder import State
from exacthead.triage.signature import of_result
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import COMMIT, outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.exacthead.triage.making import Runs

B = "u/test_a.py::test_b"


def test_a_history_that_is_not_there_is_empty(runs: Runs) -> None:
    history = History(runs.folder)

    assert list(history) == []
    assert history.notes == []


def test_an_outcome_says_what_became_of_a_test_and_where(runs: Runs) -> None:
    failed = outcome(B, Kind.FAILED)
    folder = runs.add({"unit.own.1of2": [failed]}, runner="small")

    (found,) = History(runs.folder)

    assert (found.item, found.nodeid, found.kind) == ("unit.own.1of2", B, Kind.FAILED)
    assert found.seconds == 0.25
    assert found.signature == of_result(failed)
    assert found.run.id == folder.run_id
    assert found.run.when == datetime(2030, 1, 1, tzinfo=UTC)
    assert (found.run.commit, found.run.dirty, found.run.runner) == (COMMIT, False, "small")
    assert found.run.state is State.PASSED


@pytest.mark.parametrize("kind", sorted(set(Kind)))
def test_every_kind_of_verdict_is_read_back(runs: Runs, kind: Kind) -> None:
    runs.add({"unit.own": [outcome(B, kind)]}, {"train.plain": Verdict(kind, "why")})

    assert [found.kind for found in History(runs.folder)] == [kind, kind]


@pytest.mark.parametrize("kind", [Kind.FAILED, Kind.CRASHED, Kind.TIMED_OUT])
def test_the_signature_that_is_read_back_is_that_of_the_result(runs: Runs, kind: Kind) -> None:
    failed = outcome(B, kind, reason="\x1b[1mport 7\x1b[0m\ud800 <&>\r\n'\"  is \x00 taken")
    runs.add({"unit.own": [failed]})

    (found,) = History(runs.folder)

    assert found.signature == of_result(failed) != ""


def test_the_signature_of_several_faults_is_read_back(runs: Runs) -> None:
    setup = Cause("setup", Verdict(Kind.FAILED, "one"), "E   one\x0bmore\nE   \x85\u2028E   two\r")
    call = Cause("call", Verdict(Kind.FAILED, "two"))
    skip = Cause("call", Verdict(Kind.SKIPPED, "three"))
    process = Cause("process", Verdict(Kind.CRASHED, "SIGSEGV"), "Fatal Python error\nE   four")
    attempt = Attempt(1, None, (setup, skip, process, call))
    failed = TestResult(B, (attempt,), process.verdict)
    runs.add({"unit.own": [failed]})

    (found,) = History(runs.folder)

    assert found.kind is Kind.CRASHED
    assert found.signature == of_result(failed)


def test_a_pass_after_a_retry_is_told_from_a_plain_one(runs: Runs) -> None:
    flaky, plain = outcome(B, Kind.FAILED, Kind.PASSED), outcome("u/test_a.py::c", Kind.PASSED)
    runs.add({"unit.own": [flaky, plain]})

    found = {each.nodeid: each for each in History(runs.folder)}

    assert found[B].kind is Kind.PASSED
    assert found[B].flaky
    assert not found["u/test_a.py::c"].flaky


def test_a_leg_s_outcome_is_its_own_verdict(runs: Runs) -> None:
    runs.add(legs={"train.plain": Verdict(Kind.TIMED_OUT, "after 300 s")})

    (found,) = History(runs.folder)

    assert (found.item, found.nodeid, found.kind) == ("train.plain", "", Kind.TIMED_OUT)
    assert found.seconds == 1.5


def test_the_newest_run_comes_first(runs: Runs) -> None:
    made = [runs.add({"unit.own": [outcome(B, Kind.PASSED)]}).run_id for _ in range(3)]

    assert [found.run.id for found in History(runs.folder)] == made[::-1]


def test_only_what_is_asked_for_is_read(runs: Runs) -> None:
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]})
    (runs.add().path / "plan.json").write_text("broken", encoding="utf-8")
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]})
    history = History(runs.folder)

    next(iter(history))
    assert history.notes == []
    list(history)
    assert len(history.notes) == 1


def test_an_item_that_mentions_nothing_of_interest_stays_unread(runs: Runs) -> None:
    folder = runs.add({"unit.own": [outcome(B, Kind.PASSED)], "unit.broken": []})
    folder.item("unit.broken").junit.write_text("<broken", encoding="utf-8")
    history = History(runs.folder)
    (run,) = history.runs()

    assert [each.nodeid for each in history.outcomes(run, {"u/test_a.py"})] == [B]
    assert list(history.outcomes(run, {"u/test_z.py"})) == []
    assert history.notes == []


@pytest.mark.parametrize("name", ["t&t", "<t>", '"t"', "t't", "t\u00e9\u4e2d", "t t"])
def test_a_file_of_any_name_is_found(runs: Runs, name: str) -> None:
    runs.add({"unit.own": [outcome(f"u/{name}.py::test_b", Kind.PASSED)]})
    history = History(runs.folder)
    (run,) = history.runs()

    (found,) = history.outcomes(run, {f"u/{name}.py"})

    assert found.nodeid == f"u/{name}.py::test_b"


@pytest.mark.parametrize(("planned", "changed"), [(True, ()), (False, ("posttrain/loss.py",))])
def test_a_checkout_that_was_no_commit_is_dirty(
    runs: Runs, planned: bool, changed: tuple[str, ...]
) -> None:
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]}, dirty=planned, changed=changed)

    (found,) = History(runs.folder)

    assert found.run.dirty


def test_a_run_that_goes_on_is_left_out(runs: Runs) -> None:
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]}, state=State.RUNNING)
    history = History(runs.folder)

    assert list(history) == []
    assert history.notes == []


def test_what_an_abandoned_run_has_finished_counts(runs: Runs) -> None:
    folder = runs.add({"unit.a": [outcome(B, Kind.PASSED)], "unit.b": []}, state=State.RUNNING)
    folder.item("unit.b").junit.unlink()
    state = json.loads((folder.path / "result.json").read_text(encoding="utf-8"))
    (folder.path / "result.json").write_text(json.dumps({**state, "boot": "another"}))
    history = History(runs.folder)

    assert [found.nodeid for found in history] == [B]
    assert history.notes == []


def broken_plan(path: Path) -> None:
    (path / "plan.json").write_text('{"head": 3}', encoding="utf-8")


def no_plan(path: Path) -> None:
    (path / "plan.json").unlink()


def foreign_state(path: Path) -> None:
    (path / "result.json").write_bytes(b"\xff\xfe{}")


def endless_plan(path: Path) -> None:
    (path / "plan.json").write_text("[" * 200_000, encoding="utf-8")


def odd_name(path: Path) -> None:
    path.rename(path.with_name("99999999-999999-x"))


def foreign_name(path: Path) -> None:
    path.rename(path.with_name("downloads"))


@pytest.mark.parametrize(
    "spoil", [broken_plan, no_plan, foreign_state, endless_plan, odd_name, foreign_name]
)
def test_a_folder_that_is_no_run_costs_only_itself(
    runs: Runs, spoil: Callable[[Path], None]
) -> None:
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]})
    spoil(runs.add({"unit.own": [outcome(B, Kind.FAILED)]}).path)
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]})
    history = History(runs.folder)

    assert [found.kind for found in history] == [Kind.PASSED, Kind.PASSED]
    assert len(history.notes) == 1


@pytest.mark.parametrize("content", [None, b"", b"<html/>", b"\x00\x01", b"<testsuites>"])
def test_a_junit_file_that_cannot_be_read_costs_only_itself(
    runs: Runs, content: bytes | None
) -> None:
    folder = runs.add({"unit.a": [], "unit.b": [outcome(B, Kind.PASSED)]})
    junit = folder.item("unit.a").junit
    junit.unlink()
    if content is not None:
        junit.write_bytes(content)
    history = History(runs.folder)

    assert [found.nodeid for found in history] == [B]
    assert len(history.notes) == 1
    assert "unit.a" in history.notes[0]


def test_a_truncated_junit_file_gives_what_came_before_the_break(runs: Runs) -> None:
    results = [outcome(f"u/test_a.py::test_{number}", Kind.PASSED) for number in range(50)]
    junit = runs.add({"unit.a": results}).item("unit.a").junit
    before, _, _ = junit.read_bytes().partition(b'name="test_20"')
    junit.write_bytes(before)
    history = History(runs.folder)

    found = [each.nodeid for each in history]

    assert found == [each.nodeid for each in results[:20]]
    assert len(history.notes) == 1


def test_a_leg_s_result_that_is_broken_costs_only_itself(runs: Runs) -> None:
    passed = Verdict(Kind.PASSED)
    folder = runs.add(legs={"train.a": passed, "train.b": passed})
    folder.item("train.a").result.write_text('{"verdict": "green"}', encoding="utf-8")
    history = History(runs.folder)

    assert [found.item for found in history] == ["train.b"]
    assert "items/train.a: verdict" in history.notes[0]


def test_a_runs_folder_that_is_a_file_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    history = History(tmp_path / "runs")

    assert list(history) == []
    assert len(history.notes) == 1
