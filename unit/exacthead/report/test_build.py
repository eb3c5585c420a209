"""Reports built from real run folders and their history."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.classes.rules import load_rules
from exacthead.contracts.evaluate import CheckResult, ContractResult, write_json
from exacthead.head import Head
from exacthead.history.database import open_history, sync
from exacthead.history.folders import History
from exacthead.junit import write_results
from exacthead.plan import Item, Plan
from exacthead.report.build import Sources, build
from exacthead.report.model import Class, Counts, Report, Standing
from exacthead.report.past import PastRuns
from exacthead.runs.execute import state_of
from exacthead.runs.folder import RunFolder
from exacthead.runs.result import ItemResult
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import COMMIT, Runs, outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


B, C = "u/test_a.py::test_b", "u/test_a.py::test_c"
AGAIN = "./noxw -s reproduce -- runs/r/item"
PASSED = Verdict(Kind.PASSED)
HEAD = Head(COMMIT, "7ree" * 10, dirty=False)


@dataclass
class Made:
    """Runs that are reported one after the other, as a session does."""

    runs: Runs

    def report(
        self,
        tests: Mapping[str, list[TestResult]] | None = None,
        legs: Mapping[str, ItemResult] | None = None,
        *,
        log: bytes = b"",
        **facts: Any,
    ) -> Report:
        tests, legs = tests or {}, legs or {}
        folder = self.runs.add(tests, {name: each.verdict for name, each in legs.items()}, **facts)
        items = [_suite(name, results) for name, results in tests.items()]
        items += [
            Item(name, "leg", ("bash", "functional/train.sh"), {}, {}, 9.0, contract="c.toml")
            for name in legs
        ]
        head = Head(facts.get("commit", COMMIT), "7ree" * 10, facts.get("dirty", False))
        plan = Plan(head, facts.get("runner", "small"), "cpu", tuple(items), {})
        results = []
        for name in tests:
            written = folder.item(name).read_result()
            results.append(written.model_copy(update={"reproduction": AGAIN}))
        results += [each.model_copy(update={"reproduction": AGAIN}) for each in legs.values()]
        for each in results:
            if log:
                folder.item(each.item_id).log.write_bytes(log)
            folder.item(each.item_id).write_result(each)
        state = state_of(results)
        folder.write_state(state, {})
        return self._build(folder, plan, results)

    def _build(self, folder: RunFolder, plan: Plan, results: list[ItemResult]) -> Report:
        with closing(open_history(self.runs.folder)) as connection:
            sync(connection, History(self.runs.folder))
            past = PastRuns.read(connection, folder.run_id, plan.runner)
            used = folder.read_provenance()
            sources = Sources(
                root=self.runs.folder.parent,
                folder=folder,
                state=folder.state(),
                plan=plan,
                results=results,
                used=used,
                rules=load_rules(),
                past=past,
            )
            return build(sources)


def _suite(name: str, results: list[TestResult]) -> Item:
    shard = Shard("own", 1, 1, ("u",), tuple((each.nodeid,) for each in results))
    return Item(name, "suite", (), {}, {}, 60.0, shard=shard)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(Runs(tmp_path / "runs"))


def leg(kind: Kind, reason: str = "", **facts: Any) -> ItemResult:
    verdict = Verdict(kind, reason)
    return ItemResult(item_id="train.plain", verdict=verdict, seconds=1.5, **facts)


def test_a_green_run_is_said_in_one_line(made: Made) -> None:
    report = made.report({"unit.own": [outcome(B, Kind.PASSED)]}, {"train.plain": leg(Kind.PASSED)})

    assert report.verdict == "2 passed"
    assert report.counts == Counts(passed=2, tests=1, legs=1)
    assert (report.failures, report.not_run, report.flaky) == ((), (), ())
    assert [item.id for item in report.items] == ["unit.own", "train.plain"]
    assert report.items[0].tests == {"passed": 1}
    assert report.head.commit == COMMIT


def test_each_fault_stands_where_it_belongs(made: Made) -> None:
    also = replace(outcome("u/t.py::also", Kind.FAILED), notes=("also red on base c0ffee",))
    known = replace(
        outcome("u/t.py::known", Kind.FAILED),
        verdict=Verdict(Kind.QUARANTINED, "cold (issue); failed: assert 1 == 2"),
    )
    lost = TestResult(
        "u/t.py::lost",
        (Attempt(1, None, (Cause("process", Verdict(Kind.NOT_RUN, "its process died")),)),),
        Verdict(Kind.NOT_RUN, "its process died"),
    )
    report = made.report(
        {
            "unit.own": [
                known,
                also,
                outcome(B, Kind.FAILED),
                outcome("u/t.py::flaky", Kind.FAILED, Kind.PASSED),
                lost,
                replace(lost, nodeid="u/t.py::lost_too"),
                outcome("u/t.py::skipped", Kind.SKIPPED, reason="no accelerator"),
                outcome(C, Kind.PASSED),
            ]
        }
    )

    assert report.verdict == (
        "1 new failure, 1 known, 1 also red on base, 2 not run, 1 flaky, 1 skipped, 2 passed"
    )
    assert [(each.name, each.standing) for each in report.failures] == [
        (B, Standing.NEW),
        ("u/t.py::also", Standing.ALSO_RED),
        ("u/t.py::known", Standing.KNOWN),
    ]
    assert [each.name for each in report.flaky] == ["u/t.py::flaky"]
    assert [(each.why, each.count, each.required) for each in report.not_run] == [
        ("process: its process died", 2, True),
        ("no accelerator", 1, False),
    ]
    assert report.not_run[0].names == ("u/t.py::lost", "u/t.py::lost_too")


def test_a_new_failure_says_cause_class_place_and_line_to_copy(made: Made) -> None:
    text = "def test_b():\n>   assert 1 == 2\nE   assert 1 == 2\n\nu/test_a.py:7: AssertionError"
    cause = Cause("call", Verdict(Kind.FAILED, "assert 1 == 2"), text)
    report = made.report({"unit.own": [TestResult(B, (Attempt(1, 0.5, (cause,)),), cause.verdict)]})

    (failure,) = report.failures
    assert (failure.cause, failure.failure_class) == ("assert 1 == 2", Class.ASSERTION)
    assert (failure.file, failure.line) == ("u/test_a.py", 7)
    assert failure.text == text
    assert failure.reproduction == AGAIN
    assert failure.attempts[0].seconds == 0.5


def test_every_attempt_is_told_with_what_it_said(made: Made) -> None:
    def attempt(number: int, *reasons: str) -> Attempt:
        phases = ("call", "teardown")
        causes = tuple(
            Cause(phase, Verdict(Kind.FAILED, reason), f"text of {reason}")  # type: ignore[arg-type]
            for phase, reason in zip(phases, reasons, strict=False)
        )
        return Attempt(number, number / 4, causes)

    tried = (attempt(1, "one", "and its end"), attempt(2, "two"), attempt(3))
    report = made.report({"unit.own": [TestResult(B, tried, PASSED)]})

    (flaky,) = report.flaky
    assert [(each.number, each.verdict, each.seconds) for each in flaky.attempts] == [
        (1, "failed", 0.25),
        (2, "failed", 0.5),
        (3, "passed", 0.75),
    ]
    assert [each.message for each in flaky.attempts] == ["one; teardown: and its end", "two", ""]
    assert flaky.attempts[0].text == "text of one\n\ntext of and its end"
    assert flaky.attempts[1].text == "text of two"
    assert flaky.cause == flaky.attempts[0].message
    assert flaky.score == pytest.approx(2 / 3, abs=1e-4)


def test_a_leg_is_judged_by_its_contract_and_points_there(made: Made) -> None:
    checks = (
        CheckResult("loss", "between", "loss", Verdict(Kind.FAILED, "3 is not < 2"), "3", "< 2"),
    )
    contract = ContractResult("train", checks)
    folder = made.runs.add(legs={"train.plain": contract.verdict})
    write_json(contract, folder.item("train.plain").contract)
    plan = Plan(
        HEAD,
        "small",
        "cpu",
        (Item("train.plain", "leg", ("bash", "f.sh"), {}, {}, 9.0, contract="f.contract.toml"),),
        {},
    )
    result = leg(Kind.FAILED, contract.verdict.reason, required=False)
    folder.item("train.plain").write_result(result)

    report = made._build(folder, plan, [result])

    (failure,) = report.failures
    assert (failure.failure_class, failure.group) == (Class.CONTRACT, "contract: loss")
    assert (failure.file, failure.required) == ("f.contract.toml", False)
    (check,) = report.items[0].contract
    assert (check.name, check.verdict, check.observed, check.bound) == (
        "loss",
        "failed",
        "3",
        "< 2",
    )


def test_a_script_s_failure_is_classed_by_its_log_and_points_at_it(made: Made) -> None:
    log = b"x\n" * 300_000 + b"torch.OutOfMemoryError: CUDA out of memory.\nbye\n"
    report = made.report(legs={"train.plain": leg(Kind.FAILED, "exit code 1")}, log=log)

    (failure,) = report.failures
    assert (failure.failure_class, failure.file) == (Class.MEMORY, "functional/train.sh")
    shown = report.items[0].log
    assert shown is not None
    assert (shown.path, shown.size, shown.cut) == ("items/train.plain/stdout.log", len(log), True)
    assert shown.tail.splitlines()[-1] == "bye"
    assert len(shown.tail.splitlines()) <= 60


def test_a_suite_that_no_test_makes_red_is_itself_the_failure(made: Made) -> None:
    tests = [outcome(B, Kind.PASSED)]
    folder = made.runs.add({"unit.own": tests})
    left = Verdict(Kind.FAILED, "left behind: process 7")
    cases = [*tests, TestResult("unit.own", (Attempt(0, 1.0, (Cause("process", left),)),), left)]
    write_results(folder.item("unit.own").junit, "unit.own", cases, {})
    result = ItemResult(item_id="unit.own", verdict=left, leftovers=("process 7",))
    folder.item("unit.own").write_result(result)
    plan = Plan(HEAD, "small", "cpu", (_suite("unit.own", tests),), {})

    report = made._build(folder, plan, [result])

    (failure,) = report.failures
    assert (failure.name, failure.cause) == ("unit.own", "left behind: process 7")


def test_results_that_cannot_be_read_are_a_note_and_never_green(made: Made) -> None:
    tests = [outcome(B, Kind.PASSED)]
    folder = made.runs.add({"unit.own": tests})
    folder.item("unit.own").junit.write_text("<broken", encoding="utf-8")
    result = ItemResult(item_id="unit.own", verdict=Verdict(Kind.FAILED, "lost"))
    plan = Plan(HEAD, "small", "cpu", (_suite("unit.own", tests),), {})

    report = made._build(folder, plan, [result])

    assert report.counts.passed == 0
    assert any("its results could not be read" in note for note in report.notes)
    assert report.new


def test_since_when_a_test_fails_comes_from_the_history(made: Made) -> None:
    heads = [f"{number:040x}" for number in range(4)]
    made.report({"unit.own": [outcome(B, Kind.PASSED)]}, commit=heads[0])
    for head in heads[1:]:
        report = made.report({"unit.own": [outcome(B, Kind.FAILED)]}, commit=head)

    since = report.failures[0].since
    assert since is not None
    assert (since.commit, since.runs, since.green) == (heads[1], 3, heads[0])
    assert report.failures[0].score == 0.0


def test_a_leg_has_a_since_too(made: Made) -> None:
    made.report(legs={"train.plain": leg(Kind.PASSED)}, commit="a" * 40)
    report = made.report(legs={"train.plain": leg(Kind.CRASHED, "SIGSEGV")}, commit="b" * 40)

    since = report.failures[0].since
    assert since is not None
    assert (since.commit, since.runs, since.green) == ("b" * 40, 1, "a" * 40)


def test_time_is_held_against_what_earlier_passes_took(made: Made) -> None:
    for seconds in (1.0, 3.0, 2.0):
        made.report(legs={"train.plain": replace_seconds(leg(Kind.PASSED), seconds)})
    report = made.report(legs={"train.plain": leg(Kind.PASSED)})

    assert report.items[0].expected == 2.0
    assert (report.seconds, report.expected) == (1.5, 2.0)


def replace_seconds(result: ItemResult, seconds: float) -> ItemResult:
    return result.model_copy(update={"seconds": seconds})


def test_the_last_green_run_is_named_with_what_differs(made: Made) -> None:
    green = made.report(legs={"train.plain": leg(Kind.PASSED)})
    made.report(legs={"train.plain": leg(Kind.FAILED, "no")})
    made.report({"unit.own": [outcome(B, Kind.PASSED)]})  # it ran something else
    made.report(legs={"train.plain": leg(Kind.PASSED)}, runner="large")

    report = made.report(legs={"train.plain": leg(Kind.FAILED, "no")})

    assert report.green is not None
    assert (report.green.run, report.green.commit) == (green.run, COMMIT)
    assert report.green.differences == ()
    other = made.report(legs={"train.plain": leg(Kind.FAILED, "no")}, commit="b" * 40)
    assert other.green is not None
    assert "head bbbbbbbbbbbb" in other.green.differences[0]


def test_a_merged_run_stands_in_the_history_where_its_parts_do(made: Made, tmp_path: Path) -> None:
    """It is not in it itself: its parts speak for themselves."""
    made.report(legs={"train.plain": replace_seconds(leg(Kind.PASSED), 1.0)}, commit="a" * 40)
    green = made.report(
        {"unit.own": [outcome(B, Kind.PASSED)]},
        {"train.plain": replace_seconds(leg(Kind.PASSED), 1.0)},
        commit="b" * 40,
    )
    one = made.report(legs={"train.plain": replace_seconds(leg(Kind.PASSED), 9.0)})
    two = made.report({"unit.own": [outcome(B, Kind.FAILED)]})
    (failure,) = two.failures

    with closing(open_history(made.runs.folder)) as connection:
        past = PastRuns.read(connection, "merged", "small", (one.run, two.run))
        (dated,) = past.dated([failure])
        used = RunFolder(made.runs.folder / two.run).read_provenance()
        expected, last = past.expected(), past.green(tmp_path, made.runs.folder, used)

    assert dated.since is not None
    assert (dated.since.run, dated.since.runs, dated.since.green) == ("merged", 1, "b" * 40)
    # The parts are no history of the run itself.
    assert expected["train.plain"] == 1.0
    assert last is not None
    assert last.run == green.run


def test_a_change_of_times_is_marked_while_it_is_news(made: Made) -> None:
    for number in range(16):
        seconds = (1.0 if number < 10 else 2.0) + number % 3 / 100
        report = made.report(
            legs={"train.plain": replace_seconds(leg(Kind.PASSED), seconds)},
            commit=f"{number:040x}",
        )

    (mark,) = report.marks
    assert mark.series == "seconds of train.plain"
    assert mark.commit == f"{10:040x}"
    assert (mark.before, mark.after) == (1.01, 2.01)


def test_without_a_history_a_report_says_what_it_knows(made: Made) -> None:
    report = made.report({"unit.own": [outcome(B, Kind.FAILED)]})
    folder = made.runs.add({"unit.own": [outcome(B, Kind.FAILED)]})
    plan = Plan(HEAD, "small", "cpu", (_suite("unit.own", [outcome(B, Kind.FAILED)]),), {})
    bare = build(
        Sources(
            root=made.runs.folder,
            folder=folder,
            state=folder.state(),
            plan=plan,
            results=[folder.item("unit.own").read_result()],
            used=folder.read_provenance(),
            rules=load_rules(),
        )
    )

    assert bare.failures[0].since is None
    assert bare.green is None
    assert bare.failures[0].cause == report.failures[0].cause
    assert json.dumps(dataclasses.asdict(bare), allow_nan=False)
