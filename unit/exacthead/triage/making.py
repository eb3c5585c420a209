"""Known failures, results and real run folders for the tests of triage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

from exacthead.head import Head
from exacthead.junit import write_results
from exacthead.plan import Item, Plan
from exacthead.runs.files import write_json
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.provenance import Provenance, gather
from exacthead.runs.result import ItemResult
from exacthead.triage.known import KnownFailure
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

TODAY = date(2030, 1, 15)
COMMIT = "c0ffee" * 6 + "abcd"


def known_failure(test: str | None = "u/test_a.py::test_b", **more: Any) -> KnownFailure:
    facts = {
        "reason": "the cache is cold",
        "issue": "https://tracker.example/issues/7",
        "owner": "generation team",
        "expires": date(2030, 1, 31),
    }
    return KnownFailure(**{"test": test, **facts, **more})


def attempt(kind: Kind = Kind.PASSED, reason: str = "assert 1 == 2", process: int = 1) -> Attempt:
    causes = () if kind is Kind.PASSED else (Cause("call", Verdict(kind, reason), "a traceback"),)
    return Attempt(process, 0.25, causes)


def outcome(nodeid: str, *kinds: Kind, reason: str = "assert 1 == 2") -> TestResult:
    """A test with one attempt for each kind."""
    attempts = tuple(attempt(kind, reason, number) for number, kind in enumerate(kinds, 1))
    return TestResult(nodeid, attempts, attempts[-1].verdict)


@dataclass
class Runs:
    """Run folders, written as a session writes them; each is newer than the one before."""

    folder: Path
    _made: int = 0

    def add(
        self,
        tests: Mapping[str, Iterable[TestResult]] | None = None,
        legs: Mapping[str, Verdict] | None = None,
        *,
        commit: str = COMMIT,
        dirty: bool = False,
        changed: tuple[str, ...] = (),
        runner: str = "small",
        state: State = State.PASSED,
    ) -> RunFolder:
        """A run with suites (results by item id) and legs (verdicts by item id)."""
        tests, legs = tests or {}, legs or {}
        run = self._next(commit)
        run.path.mkdir(parents=True)
        head = Head(commit, "7ree" * 10, dirty)
        items = [Item(name, "suite", (), {}, {}, 60.0) for name in tests]
        items += [Item(name, "leg", (), {}, {}, 60.0) for name in legs]
        plan = Plan(head, runner, "cpu", tuple(items), {})
        write_json(run.path / "plan.json", plan.as_data())
        used = {"commit": commit, "tree": head.tree, "dirty": dirty, "changed": changed}
        run.write_provenance(_provenance().model_copy(update=used))
        for item, results in tests.items():
            every = list(results)
            write_results(run.item(item).junit, item, every, {})
            seconds = sum(each.seconds or 0.0 for each in every)
            verdict = Verdict(Kind.PASSED)
            if red := [each.nodeid for each in every if not each.verdict.green]:
                verdict = Verdict(Kind.FAILED, f"{len(red)} of {len(every)} tests failed")
            run.item(item).write_result(ItemResult(item_id=item, verdict=verdict, seconds=seconds))
        for item, verdict in legs.items():
            run.item(item).write_result(ItemResult(item_id=item, verdict=verdict, seconds=1.5))
        run.write_state(state, {})
        return run

    def again(self, run: RunFolder, times: int = 1) -> None:
        """The same run some more times; quicker than waiting for the disk at each file of each."""
        for _ in range(times):
            shutil.copytree(run.path, self._next(run.run_id.split("-")[2]).path)

    def _next(self, commit: str) -> RunFolder:
        number = self._made
        self._made += 1
        name = f"20300101-{number // 60:02}{number % 60:02}00-{commit[:12]}-{number:04x}"
        return RunFolder(self.folder / name)


@cache
def _provenance() -> Provenance:
    return gather(Head(COMMIT, "7ree" * 10, dirty=False), workers=(), locks={}, fixtures={})
