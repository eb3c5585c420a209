"""Law 2, for suites and legs: nothing that did not run is green, and every file says the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from junitparser import JUnitXml

from exacthead.conclude import conclude, counts, stages
from exacthead.junit import merge
from exacthead.plan import Item
from exacthead.runs.execute import not_run
from exacthead.runs.folder import RunFolder
from exacthead.runs.item import ItemOutcome, ItemRequest
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.runs.result import ItemResult

PASSED = Verdict(Kind.PASSED)
CRASHED = Verdict(Kind.CRASHED, "ended by SIGSEGV")
CONTRACT = '[[check]]\nname = "m is 1"\nkind = "equals"\nmetric = "m"\nvalue = 1\n'


class Bench:
    """One item that has ended somehow, to be concluded."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root = root
        (root / "c.contract.toml").write_text(CONTRACT, encoding="utf-8")
        self.item = Item(
            "it", kind, ("x",), {}, {}, 1.0, "c.contract.toml" if kind == "leg" else ""
        )
        self.folder = RunFolder.create(root / "runs", {}, "head").item("it")
        self.request = ItemRequest("it", ("x",), root, self.folder, 1.0)

    def conclude(self, verdict: Verdict, returncode: int | None = 0) -> ItemResult:
        outcome = ItemOutcome(verdict, returncode, None, 1.5, 0.0, (), (), self.folder.log)
        return conclude(self.root, self.item, self.request, outcome, {"head": "abc"})

    def leave(self, cases: str) -> None:
        """Write what pytest would have written."""
        text = f'<testsuites><testsuite name="pytest">{cases}</testsuite></testsuites>'
        (self.folder.path / "pytest.xml").write_text(text, encoding="utf-8")

    @property
    def totals(self) -> str:
        return counts(merge([self.folder.junit], self.folder.path / "again.xml"))


@pytest.fixture
def suite(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "suite")


@pytest.fixture
def leg(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "leg")


GOOD = '<testcase classname="t" name="good" time="1"/>'
BAD = '<testcase classname="t" name="bad" time="1"><failure message="no"/></testcase>'
SKIPPED = '<testcase classname="t" name="skipped" time="0"><skipped message="why"/></testcase>'


def test_a_suite_whose_tests_passed_is_green_and_counts_the_skipped(suite: Bench) -> None:
    suite.leave(GOOD + SKIPPED)

    result = suite.conclude(PASSED)

    assert result.verdict == PASSED
    assert result.details == ("1 passed, 0 failed, 1 skipped",)
    assert suite.totals == "1 passed, 0 failed, 1 skipped"
    junit = JUnitXml.fromfile(str(suite.folder.junit))
    assert [each.value for part in junit for each in part.properties()] == ["abc"]


@pytest.mark.parametrize(
    ("cases", "verdict", "returncode", "reason"),
    [
        ("", Verdict(Kind.FAILED, "exit code 5"), 5, "no tests ran"),
        ("", PASSED, 0, "no test passed"),
        (SKIPPED * 3, PASSED, 0, "no test passed: 0 passed, 0 failed, 3 skipped"),
        (GOOD + BAD, PASSED, 0, "its JUnit file says 1 passed, 1 failed"),
        (GOOD, CRASHED, -11, "SIGSEGV"),
        (GOOD, Verdict(Kind.TIMED_OUT, "too long"), None, "too long"),
        (GOOD, Verdict(Kind.FAILED, "exit code 0, but left behind: sleep"), 0, "left behind"),
        (BAD, Verdict(Kind.FAILED, "exit code 1"), 1, "exit code 1"),
    ],
)
def test_a_suite_that_is_not_green_is_red_in_its_file_too(
    suite: Bench, cases: str, verdict: Verdict, returncode: int | None, reason: str
) -> None:
    suite.leave(cases)

    result = suite.conclude(verdict, returncode)

    assert not result.verdict.green
    assert reason in result.verdict.reason
    assert ", 1 failed" in suite.totals


@pytest.mark.parametrize("text", [None, "", "<testsuites><testsuite><testcase name='a'/>"])
def test_a_missing_or_cut_off_junit_file_is_red(suite: Bench, text: str | None) -> None:
    if text is not None:
        (suite.folder.path / "pytest.xml").write_text(text, encoding="utf-8")

    result = suite.conclude(PASSED)

    assert result.verdict.kind is Kind.FAILED
    assert "missing or cannot be read" in result.verdict.reason
    assert ", 1 failed" in suite.totals


def test_a_suite_that_never_started_has_one_case_that_says_why(suite: Bench) -> None:
    outcome = not_run(suite.request, "no worker")

    result = conclude(suite.root, suite.item, suite.request, outcome, {})

    assert result.verdict == Verdict(Kind.NOT_RUN, "no worker")
    (case,) = (case for part in JUnitXml.fromfile(str(suite.folder.junit)) for case in part)
    assert [each.message for each in case.result] == ["no worker"]


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


def test_the_checks_of_a_leg_that_died_name_its_end(leg: Bench) -> None:
    leg.conclude(CRASHED)

    written = json.loads(leg.folder.contract.read_text(encoding="utf-8"))
    assert "ended by SIGSEGV" in written["checks"][0]["verdict"]["reason"]


def test_a_leg_that_never_started_has_checks_that_were_not_run(leg: Bench) -> None:
    result = conclude(leg.root, leg.item, leg.request, not_run(leg.request, "no worker"), {})

    assert result.verdict == Verdict(Kind.NOT_RUN, "no worker")
    written = json.loads(leg.folder.contract.read_text(encoding="utf-8"))
    assert written["checks"][0]["verdict"] == {"kind": "not_run", "reason": "no worker"}
    assert leg.totals == "0 passed, 2 failed, 0 skipped"


def test_stages_are_the_last_finite_times(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(
        '{"step": 1, "timing/a": 1, "timing/b": 2.5, "timing/c": true, "timing/d": NaN, "e": 1}\n'
        '{"step": 2, "timing/a": 3}\n',
        encoding="utf-8",
    )

    assert stages(metrics) == {"a": 3.0, "b": 2.5}
    assert stages(tmp_path / "none") == {}
