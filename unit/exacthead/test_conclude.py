"""Law 2, for suites and legs: nothing that did not run is green, and every file says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest
from junitparser import JUnitXml

from exacthead.conclude import conclude, counts, stages
from exacthead.ended import Ended
from exacthead.head import Head
from exacthead.judgement import judgement
from exacthead.junit import merge
from exacthead.plan import Item
from exacthead.runs.execute import not_run, unstarted
from exacthead.runs.folder import RunFolder
from exacthead.runs.item import ItemOutcome, ItemRequest
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.runs.result import ItemResult

PASSED = Verdict(Kind.PASSED)
CRASHED = Verdict(Kind.CRASHED, "ended by SIGSEGV")
CONTRACT = '[[check]]\nname = "m is 1"\nkind = "equals"\nmetric = "m"\nvalue = 1\n'


TODAY = date(2030, 1, 1)


class Bench:
    """One item that has ended somehow, to be concluded."""

    def __init__(self, root: Path, item: Item) -> None:
        self.root = root
        (root / "c.contract.toml").write_text(CONTRACT, encoding="utf-8")
        self.item = item
        self.folder = RunFolder.create(root / "runs", {}, "head").item(item.id)
        self.request = ItemRequest(item.id, ("x",), root, self.folder, 1.0)

    def conclude(self, verdict: Verdict, returncode: int | None = 0) -> ItemResult:
        outcome = ItemOutcome(verdict, returncode, None, 1.5, 0.0, (), (), self.folder.log)
        return self.end(outcome)

    def end(self, outcome: ItemOutcome) -> ItemResult:
        head = Head("c", "t", dirty=False)
        known = replace(judgement(self.root, self.root / "runs", "cpu2", head), today=TODAY)
        return conclude(Ended(self.item, self.request, outcome, {"head": "abc"}), known)

    @property
    def totals(self) -> str:
        return counts(merge([self.folder.junit], self.folder.path / "again.xml"))


@pytest.fixture
def leg(tmp_path: Path) -> Bench:
    return Bench(tmp_path, Item("it", "leg", ("x",), {}, {}, 1.0, "c.contract.toml"))


SHARD = Shard("s", 1, 1, ("unit",), (("t.py::a", "t.py::b"), ("u.py::c",)))


def test_a_suite_that_never_started_has_a_case_for_each_test_that_says_why(
    tmp_path: Path,
) -> None:
    suite = Bench(tmp_path, Item("it", "suite", ("x",), {}, {}, 1.0, shard=SHARD))

    result = suite.end(not_run(suite.request, "no worker"))

    assert result.verdict.kind is Kind.NOT_RUN
    assert result.verdict.reason.startswith("no worker; 3 of 3 tests not run")
    cases = [case for part in JUnitXml.fromfile(str(suite.folder.junit)) for case in part]
    assert [case.name for case in cases] == ["a", "b", "c"]
    assert all("no worker" in each.message for case in cases for each in case.result)
    assert suite.totals == "0 passed, 3 failed, 0 skipped"


def test_a_suite_without_streams_is_red_although_its_driver_ended_well(tmp_path: Path) -> None:
    suite = Bench(tmp_path, Item("it", "suite", ("x",), {}, {}, 1.0, shard=SHARD))

    result = suite.conclude(PASSED)

    assert result.verdict.kind is Kind.FAILED
    assert suite.totals == "0 passed, 3 failed, 0 skipped"


@pytest.mark.parametrize(
    ("settled", "totals"),
    [
        (Verdict(Kind.SKIPPED, "no accelerator"), "0 passed, 0 failed, 1 skipped"),
        (Verdict(Kind.FAILED, "no tests"), "0 passed, 1 failed, 0 skipped"),
        (Verdict(Kind.NOT_RUN, "no worker"), "0 passed, 1 failed, 0 skipped"),
    ],
)
def test_what_the_plan_has_settled_is_one_case_that_says_why(
    tmp_path: Path, settled: Verdict, totals: str
) -> None:
    item = Item("it", "suite", ("x",), {}, {}, 1.0, shard=SHARD, settled=settled)
    suite = Bench(tmp_path, item)

    result = suite.end(unstarted(suite.request, settled))

    assert result.verdict == settled
    (case,) = (case for part in JUnitXml.fromfile(str(suite.folder.junit)) for case in part)
    assert [each.message for each in case.result] == [settled.reason]
    assert suite.totals == totals


def test_a_leg_is_green_when_its_script_and_every_check_passed(leg: Bench) -> None:
    leg.folder.metrics.write_text('{"step": 1, "m": 1}\n', encoding="utf-8")

    result = leg.conclude(PASSED)

    assert result.verdict == PASSED
    assert leg.totals == "2 passed, 0 failed, 0 skipped"
    assert "m is 1" in result.details[0]


@pytest.mark.parametrize(
    ("metrics", "verdict", "kind", "totals"),
    [
        ('{"step": 1, "m": 2}', PASSED, Kind.FAILED, "1 passed, 1 failed"),
        (None, PASSED, Kind.FAILED, "1 passed, 1 failed"),
        ("", PASSED, Kind.FAILED, "1 passed, 1 failed"),
        ('{"step": 1, "m": NaN}', PASSED, Kind.FAILED, "1 passed, 1 failed"),
        ('{"step": 1, "m": 1}', CRASHED, Kind.CRASHED, "1 passed, 1 failed"),
        (None, CRASHED, Kind.CRASHED, "0 passed, 2 failed"),
    ],
)
def test_a_leg_is_red_when_its_script_or_a_check_is(
    leg: Bench, metrics: str | None, verdict: Verdict, kind: Kind, totals: str
) -> None:
    if metrics is not None:
        leg.folder.metrics.write_text(metrics, encoding="utf-8")

    result = leg.conclude(verdict)

    assert result.verdict.kind is kind
    assert leg.totals == f"{totals}, 0 skipped"


KNOWN = """
[[known]]
leg = "count.plain"
reason = "not mended yet"
issue = "https://example.test/1"
owner = "the counters"
expires = 2999-01-01
"""


def test_a_known_red_leg_is_quarantined_and_its_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/known_failures.toml").write_text(KNOWN, encoding="utf-8")
    item = Item("count.plain", "leg", ("x",), {}, {}, 1.0, "c.contract.toml")
    leg = Bench(tmp_path, item)
    leg.folder.metrics.write_text('{"step": 1, "m": 2}\n', encoding="utf-8")

    result = leg.conclude(PASSED)

    assert result.verdict.kind is Kind.QUARANTINED
    assert leg.totals == "1 passed, 0 failed, 0 skipped, 1 quarantined"


def test_the_checks_of_a_leg_that_died_name_its_end(leg: Bench) -> None:
    leg.conclude(CRASHED)

    written = json.loads(leg.folder.contract.read_text(encoding="utf-8"))
    assert "ended by SIGSEGV" in written["checks"][0]["verdict"]["reason"]


def test_a_leg_that_never_started_has_checks_that_were_not_run(leg: Bench) -> None:
    result = leg.end(not_run(leg.request, "no worker"))

    assert result.verdict == Verdict(Kind.NOT_RUN, "no worker")
    written = json.loads(leg.folder.contract.read_text(encoding="utf-8"))
    assert written["checks"][0]["verdict"] == {"kind": "not_run", "reason": "no worker"}
    assert leg.totals == "0 passed, 2 failed, 0 skipped"


def test_stages_are_the_last_finite_times(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    huge = 400 * "9"  # an integer that no float can hold
    metrics.write_text(
        '{"step": 1, "timing/a": 1, "timing/b": 2.5, "timing/c": true, "timing/d": NaN, "e": 1}\n'
        f'{{"step": 2, "timing/a": 3, "timing/f": {huge}, "timing/g": -{huge}}}\n'
        '{"step": 3, "timing/h": 1e999}\n',
        encoding="utf-8",
    )

    assert stages(metrics) == {"a": 3.0, "b": 2.5}
    assert stages(tmp_path / "none") == {}


def test_a_time_that_no_float_can_hold_costs_a_leg_its_verdict_nothing(leg: Bench) -> None:
    line = f'{{"step": 1, "m": 1, "timing/x": {400 * "9"}}}\n'
    leg.folder.metrics.write_text(line, encoding="utf-8")

    assert leg.conclude(PASSED).verdict == PASSED
