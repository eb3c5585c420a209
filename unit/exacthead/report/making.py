"""A report by hand, with something in each of its parts."""

from __future__ import annotations

from typing import Any

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

COMMIT = "c0ffee" * 6 + "abcd"
AGAIN = "./noxw -s reproduce -- runs/" + "x" * 120 + "/unit.own"
FAILURE = Failure(
    name="u/test_a.py::test_b[<b>|`x`]",
    item="unit.own",
    kind="failed",
    standing=Standing.NEW,
    required=True,
    cause="assert 1 == 2",
    text="u/test_a.py:7: AssertionError",
    failure_class=Class.ASSERTION,
    rule="assertion",
    group="assertion",
    since=Since("r0", "beef" * 10, "2030-01-01T00:00:00+00:00", 3, green="f00d" * 10),
    reproduction=AGAIN,
    file="u/test_a.py",
    line=7,
    attempts=(
        Attempt(1, "failed", 0.25, "assert 1 == 2"),
        Attempt(2, "failed", None, "assert 1 == 3"),
    ),
    score=0.25,
    notes=("known failure expired",),
)


def report(**other: Any) -> Report:
    """A red report; ``other`` replaces fields of it."""
    known = Failure(
        name="train.plain",
        item="train.plain",
        kind="quarantined",
        standing=Standing.KNOWN,
        required=True,
        cause="cold (issue); failed",
    )
    leg = Item(
        id="train.plain",
        kind="leg",
        verdict="quarantined",
        reason="cold",
        required=True,
        seconds=21.54,
        folder="items/train.plain",
        expected=20.0,
        peak_mb=512.0,
        workers=("policy", "vllm"),
        stages={"generation": 21.04, "refit": 0.5},
        contract=(Check("loss is finite", "finite", "loss", "passed", "", "0.5", "finite"),),
        log=Log("items/train.plain/stdout.log", 10, "a\n\x1b[31mb", cut=False),
        details=("| check | found |\n| --- | --- |\n| loss is finite | 0.5 |",),
    )
    suite = Item(
        id="unit.own",
        kind="suite",
        verdict="failed",
        reason="1 of 3 tests failed",
        required=True,
        seconds=3.21,
        folder="items/unit.own",
        expected=3.0,
        suite="own",
        shard=1,
        shards=1,
        tests={"failed": 1, "passed": 1, "not_run": 1},
        leftovers=("process 7 `sleep 600`",),
        notes=("new name in /dev/shm",),
        reproduction=AGAIN,
    )
    facts: dict[str, Any] = {
        "run": "20300101-000000-c0ffeec0ffee-0001",
        "state": "failed",
        "verdict": "1 new failure, 1 known, 1 not run, 1 passed",
        "counts": Counts(new=1, known=1, not_run=1, passed=1, tests=3, legs=1),
        "head": Head(COMMIT, "7ree" * 10, dirty=False),
        "started": "2030-01-01T00:00:00+00:00",
        "seconds": 24.75,
        "runner": "small",
        "flavour": "cpu",
        "machine": "2 x cpu, 24 GiB",
        "invocation": "unit",
        "expected": 23.0,
        "failures": (FAILURE, known),
        "not_run": (NotRun("unit.own", "not_run", "its process died", 1, ("u/test_a.py::c",)),),
        "items": (leg, suite),
        "workers": (
            Worker("policy", "k" * 64, "cpu", "cpython 3.13.0", "built", 12.34),
            Worker("vllm", "v" * 64, "cpu", "cpython 3.13.0", "reused", 0.02),
        ),
        "green": Green("r9", "f00d" * 10, "2029-12-31T00:00:00+00:00", ("commit c0ffee A step",)),
        "marks": (Mark("loss of train.plain", "r5", "beef" * 10, 0.5, 0.75, 9.0),),
        "sections": ("### Ready to leave the known failures (1)", "", "- `x`: remove its entry"),
        "notes": ("worker policy: 3.13.0 is below its floor",),
    }
    return Report(**{**facts, **other})
