"""A run folder with its report, with everything in it that a page can show."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.contracts.series import Point
from exacthead.junit import write_results
from exacthead.report.model import (
    Attempt,
    Check,
    Class,
    Counts,
    Failure,
    Green,
    Head,
    Item,
    Log,
    Mark,
    NotRun,
    Report,
    Since,
    Standing,
    Worker,
)
from exacthead.runs.files import write_json
from exacthead.runs.folder import RunFolder, folder_name
from exacthead.units.result import Attempt as RunAttempt
from exacthead.units.result import Cause, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["HOSTILE", "LINE", "Point", "sample"]

COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
OLDER = "99887766554433221100ffeeddccbbaa99887766"
RUN = "20260801-101500-1a2b3c4d5e6f-0001"
LINE = f"./noxw -s reproduce -- 'runs/{RUN}/unit.policy.1of2' --test 'test_clip[low & high]'"
# What a test's name, a message or a branch may hold, at its worst.
HOSTILE = (
    "</script></style></title>\"'><script>window.hit = 1</script>"
    "<img src=x onerror='window.hit = 1'>{{ 7 * 7 }}<a href=\"javascript:window.hit=1\">x</a>"
    "\x1b]8;;javascript:window.hit=1\x07y\x1b]8;;\x07\x1b[31m\u202e\x00\ud83d"
)


def sample(runs: Path, text: str = "") -> tuple[RunFolder, Report]:
    """A red run of two shards and a leg.

    Args:
        runs: where its folder is made.
        text: put into every text that is not the harness's own.
    """
    folder = RunFolder(runs / RUN)
    report = _report(text)
    for item in report.items:
        place = runs / RUN / item.folder
        (place / "artifacts").mkdir(parents=True)
        (place / "stdout.log").write_text(item.log.tail if item.log else "", "utf-8", "replace")
        (place / "artifacts" / "notes & more.txt").write_text("kept", encoding="utf-8")
    leg, one, two = report.items
    _metrics(runs / RUN / leg.folder / "metrics.jsonl")
    for shard, start in ((one, 0), (two, 40)):
        tests = [_test(number, text) for number in range(start, start + 40)]
        write_results(runs / RUN / shard.folder / "junit.xml", shard.id, tests, {}, shard.seconds)
    _coverage(runs / RUN)
    return folder, report


def _report(text: str) -> Report:
    failing = Failure(
        name=f"unit/policy/test_loss.py::test_clip[low & high]{text}",
        item="unit.policy.1of2",
        kind="failed",
        standing=Standing.NEW,
        required=True,
        cause=f"AssertionError: assert 0.1999 == 0.2 ± 1e-06{text}",
        text=f"\x1b[1m\x1b[31mE   assert 0.1999 == 0.2\x1b[0m\n{text}" * 3,
        failure_class=Class.ASSERTION,
        rule="assertion",
        group=f"assertion: 0.1999 == 0.2{text}",
        since=Since(RUN, COMMIT, "2026-08-01T10:15:00+00:00", 1, green=OLDER),
        reproduction=LINE,
        file=f"unit/policy/test_loss.py{text}",
        line=41,
        attempts=(
            Attempt(1, "failed", 0.81, f"AssertionError: assert 0.1998 == 0.2{text}", "first"),
            Attempt(2, "failed", 0.79, f"AssertionError: assert 0.1999 == 0.2{text}", "second"),
        ),
        score=0.02,
        notes=(f"slower than its limit of 1 s in 2 of 5 runs{text}",),
    )
    same = replace(failing, name="unit/policy/test_loss.py::test_clip[high]", attempts=())
    known = replace(
        failing,
        name="unit/policy/test_ranks.py::test_two_ranks",
        kind="quarantined",
        standing=Standing.KNOWN,
        required=False,
        group="",
        since=Since("20260601-1", OLDER, "2026-06-01T08:00:00+00:00", 14),
        attempts=(),
    )
    base = replace(failing, name="gym_training.flag_off", item="gym_training.flag_off",
                   standing=Standing.ALSO_RED, failure_class=Class.CONTRACT, group="", since=None,
                   cause=f"the loss is finite: nan{text}", attempts=())  # fmt: skip
    return Report(
        run=RUN,
        state="failed",
        verdict="2 new failures, 1 known, 1 also red on base, 3 not run",
        counts=Counts(new=2, known=1, also_red=1, not_run=3, passed=74, tests=80, legs=1),
        head=Head(COMMIT, COMMIT[::-1], dirty=False, changed=(f"docs/a.md{text}",)),
        started="2026-08-01T10:15:00+00:00",
        seconds=240.0,
        expected=150.0,
        runner=f"cpu2{text}",
        flavour="cpu",
        machine=f"2 x Some CPU, 24 GiB{text}",
        invocation=f"unit --suite policy{text}",
        failures=(failing, same, base, known),
        not_run=(
            NotRun(
                "unit.policy.2of2",
                "not_run",
                f"its process ended by SIGKILL{text}",
                3,
                (f"unit/policy/test_a.py::test_b{text}", "unit/policy/test_a.py::test_c"),
                LINE,
            ),
        ),
        flaky=(replace(failing, name=f"unit/policy/test_port.py::test_port{text}", kind="passed"),),
        items=(
            _leg(text),
            _shard(1, 100.0, 30.0, text),
            _shard(2, 80.0, 110.0, text),
        ),
        workers=(
            Worker(f"policy{text}", "3fa26301fe62" * 5, "cpu", "cpython 3.13.0", "built", 21.4),
            Worker("gym", "42d3d20cd0be" * 5, "cpu", "cpython 3.13.0", "reused", 0.02),
        ),
        images={"unit.policy.1of2": f"sha256:{'ab' * 32}{text}"},
        green=Green(
            "20260731-1",
            OLDER,
            "2026-07-31T10:00:00+00:00",
            (f"worker policy: torch 2.12.0 → 2.13.0{text}",),
        ),
        marks=(Mark(f"seconds of gym_training.flag_off{text}", RUN, COMMIT, 40.0, 60.0, 9.0),),
        sections=(
            "## Known failures",
            "",
            f"- one has [an issue](https://tracker.example/7) {text.replace(chr(10), ' ')}",
            "## Coverage",
            "",
            "40.0 % of lines",
        ),
        notes=(f"a note{text}",),
    )


def _leg(text: str) -> Item:
    mark = Mark("metric train/loss", RUN, COMMIT, 0.4, 0.5, 8.0)
    return Item(
        id="gym_training.flag_off",
        kind="leg",
        verdict="failed",
        reason=f"1 of 2 checks failed{text}",
        required=True,
        seconds=60.0,
        folder="items/gym_training.flag_off",
        started=1_785_579_300.0,
        expected=40.0,
        peak_mb=3308.4,
        workers=("gym", "policy"),
        stages={f"start{text}": 40.0, "step": 20.0},
        contract=(
            Check(f"the loss is finite{text}", "finite", "train/loss", "failed", f"it is nan{text}",
                  f"nan{text}", "finite", (mark,)),
            Check("one step", "recorded_steps", "", "passed", "", "step 1", "only step 1"),
        ),
        log=Log("items/gym_training.flag_off/stdout.log", 500_000_000,
                f"step 1 \x1b[32mok\x1b[0m\n{text}\n", cut=True),
        leftovers=(f"process 4711 (sleep 600){text}",),
        notes=(f"its note{text}",),
        reproduction=LINE,
    )  # fmt: skip


def _shard(number: int, seconds: float, started: float, text: str) -> Item:
    name = f"unit.policy.{number}of2"
    return Item(
        id=name,
        kind="suite",
        verdict="failed" if number == 1 else "crashed",
        reason=f"2 of 40 tests failed{text}",
        required=True,
        seconds=seconds,
        folder=f"items/{folder_name(name)}",
        suite="policy",
        shard=number,
        shards=2,
        started=1_785_579_300.0 + started,
        peak_mb=812.0,
        workers=("policy",),
        tests={"passed": 37, **({"failed": 3} if number == 1 else {"not_run": 3})},
        log=Log(f"items/{name}/stdout.log", 900, f"....F.{text}", cut=False),
        reproduction=LINE,
    )  # fmt: skip


def _test(number: int, text: str) -> TestResult:
    name = f"unit/policy/test_loss.py::test_{number}{text}"
    if number != 3:
        attempts = (RunAttempt(1, 0.01 * number),)
    else:
        bad = Cause("call", Verdict(Kind.FAILED, f"assert 1 == 2{text}"), f"a traceback{text}")
        attempts = (RunAttempt(1, 0.5, (bad,)),)
    return TestResult(name, attempts, attempts[-1].verdict)


def _metrics(path: Path) -> None:
    lines = (
        {"step": step, "train/reward/mean": step / 20, "train/reward/min": 0.0,
         "train/loss": float("nan") if step == 7 else 1 / step, "timing/step": 4.0 + step % 3,
         "timing/refit": 0.3, "train/token_mult_prob_error": 1.0001, "refit/transport": "shm"}
        for step in range(1, 21)
    )  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _coverage(run: Path) -> None:
    (run / "coverage.xml").write_text(
        '<coverage><class filename="src/a.py"><line number="1" hits="1"/>'
        '<line number="2" hits="0"/><line number="3" hits="0"/><line number="9" hits="0"/></class>'
        '<class filename="src/b.py"><line number="1" hits="1"/></class></coverage>',
        encoding="utf-8",
    )
    write_json(
        run / "patch_coverage.json",
        {"state": "failed", "base": OLDER, "limit": 80.0, "covered": 1, "total": 4,
         "missing": {"src/a.py": [2, 3, 9]}, "reasons": []},
    )  # fmt: skip
