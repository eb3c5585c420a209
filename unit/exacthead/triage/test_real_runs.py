"""Faults of real pytest processes: the same ones in two runs, and what changes between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from exacthead.environ import clean_environment
from exacthead.history.folders import History
from exacthead.triage.base import compare_with_base
from exacthead.triage.known import Known
from exacthead.triage.quarantine import apply
from exacthead.units import drive
from exacthead.units.order import ShardOrder
from exacthead.units.read import read_results
from exacthead.verdict import Kind
from unit.exacthead.triage.making import COMMIT, TODAY, known_failure

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.units.result import TestResult
    from unit.exacthead.triage.making import Runs

TESTS = """
import os
import signal
import socket

import pytest

def test_volatile(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not tmp_path, f"{object()} at port {port} of process {os.getpid()}"

def test_values():
    assert [1, 2, WANTED] == [1, 2, 3]

def test_headless():
    raise AssertionError(f"\\n\\narrays differ at {WANTED}")

def test_crash():
    os.kill(os.getpid(), signal.SIGSEGV)

def test_flaky():
    passed_before = os.path.exists("seen")
    open("seen", "w").close()
    assert passed_before

@pytest.fixture
def broken():
    yield
    raise OSError(WANTED)

def test_teardown(broken):
    assert WANTED == 3
"""
NAMES = ("volatile", "values", "headless", "crash", "flaky", "teardown")
IDS = {name: f"test_small.py::test_{name}" for name in NAMES}


def run(
    folder: Path, names: tuple[str, ...], *, wanted: int, retries: int = 0
) -> tuple[TestResult, ...]:
    """Some of the tests, run by the real driver in a checkout of their own."""
    root = folder / "checkout"
    item = folder / "item"
    root.mkdir(parents=True)
    item.mkdir()
    tests = TESTS.replace("WANTED", str(wanted))
    (root / "test_small.py").write_text("# moved\n" * wanted + tests, encoding="utf-8")
    order = ShardOrder(
        suite="small",
        python=sys.executable,
        root=str(root),
        paths=("test_small.py",),
        groups=(tuple(IDS[name] for name in names),),
        retries=retries,
    )
    (item / "order.json").write_text(json.dumps(order.as_data()), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-I", drive.__file__, str(item / "order.json"), str(item)],
        env=clean_environment(os.environ),
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=200,
    )
    return read_results(item, order.nodeids, "").results


def test_faults_of_real_processes_are_the_same_or_not(runs: Runs, tmp_path: Path) -> None:
    base = run(tmp_path / "base", NAMES, wanted=4)
    runs.add({"unit.small": base})
    same = run(tmp_path / "same", NAMES, wanted=4)
    other = run(tmp_path / "other", NAMES, wanted=5)

    red = {
        name: {
            each.nodeid
            for each in compare_with_base(results, History(runs.folder), COMMIT)
            if each.notes == (f"also red on base {COMMIT[:12]}",)
        }
        for name, results in {"same": same, "other": other}.items()
    }

    assert [each.verdict.kind for each in base].count(Kind.CRASHED) == 1
    assert red["same"] == set(IDS.values())
    # Moved lines and another process are no other fault; another value is one.
    assert red["other"] == {IDS["volatile"], IDS["crash"], IDS["flaky"]}


def test_retries_tell_flaky_from_broken_and_known_from_both(tmp_path: Path) -> None:
    known = Known((known_failure(IDS["values"]), known_failure(IDS["flaky"])))

    ran = run(tmp_path, ("values", "headless", "flaky"), wanted=4, retries=1)
    results = apply(ran, known, "small", TODAY)

    kinds = {each.nodeid: each.verdict.kind for each in results}
    assert kinds == {
        IDS["values"]: Kind.QUARANTINED,
        IDS["headless"]: Kind.FAILED,
        IDS["flaky"]: Kind.PASSED,
    }
    attempts = {each.nodeid: [str(tried.verdict) for tried in each.attempts] for each in results}
    assert attempts[IDS["flaky"]] == ["failed(assert False)", "passed"]
    assert [each.flaky for each in results] == [False, False, True]
    assert [len(tried) for tried in attempts.values()] == [2, 2, 2]
