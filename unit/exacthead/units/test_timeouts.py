"""A hang ends, with the stacks of all its threads, wherever it happens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unit.exacthead.units.small import Suite

HANGS = """
    import ctypes, os, signal, subprocess, threading, time
    import pytest

    @pytest.fixture
    def never_ready():
        time.sleep(1000)

    def busy_elsewhere(): time.sleep(1000)

    def test_sleeps():
        threading.Thread(target=busy_elsewhere, daemon=True).start()
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        with open("child.pid", "w") as file:
            file.write(str(child.pid))
        print("about to sleep", flush=True)
        time.sleep(1000)
    def test_holds_the_lock():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ctypes.PyDLL(None).sleep(1000)  # PyDLL keeps the interpreter's lock
    def test_in_fixture(never_ready): pass
    def test_last(): pass
"""


def test_a_hang_in_a_test_is_cut_with_its_stacks(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite({"tests/test_a.py": HANGS})
    names = ("sleeps", "holds_the_lock", "in_fixture", "last")
    ids = tuple(f"tests/test_a.py::test_{name}" for name in names)
    ran = here.run(here.order(ids, test_timeout_s=2.0))
    limit = "timed_out(the limit of one test is 2 s, its fixtures included)"
    assert list(ran.verdicts.values()) == [limit, limit, limit, "passed"]
    sleeps, lock, fixture, _ = (result.attempts[0] for result in ran.reading.results)
    assert "in test_sleeps" in sleeps.causes[0].text
    assert "in busy_elsewhere" in sleeps.causes[0].text
    assert "about to sleep" in sleeps.causes[0].text
    assert "in test_holds_the_lock" in lock.causes[0].text
    assert "in never_ready" in fixture.causes[0].text
    child = int((here.root / "child.pid").read_text())
    assert not alive(child), "what a test started ends with it"


def test_a_hang_in_collection_costs_only_its_file(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": "import time; time.sleep(1000)\ndef test_a(): pass",
            "tests/test_b.py": "def test_b(): pass",
        }
    )
    a, b = "tests/test_a.py::test_a", "tests/test_b.py::test_b"
    ran = here.run(here.order((a,), (b,), start_timeout_s=4.0))
    limit = "the limit of collecting one file is 4 s"
    assert ran.verdicts == {
        a: f"not_run(tests/test_a.py could not be collected: {limit})",
        b: "passed",
        "tests/test_a.py": f"timed_out({limit})",
    }
    assert "test_a.py" in ran.results["tests/test_a.py"].attempts[0].causes[0].text


def test_a_hang_at_exit_is_a_fault_of_no_test(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import threading, time
                def never_ends():
                    while True: time.sleep(1)
                def test_a(): threading.Thread(target=never_ends).start()
            """
        }
    )
    for limits in ({"start_timeout_s": 4.0}, {"timeout_s": 10.0}):  # the shard's own strikes later
        (item,) = (str(value) for value in limits.values())
        ran = here.run(here.order(("tests/test_a.py::test_a",), **limits), item)
        assert ran.kinds == {"tests/test_a.py::test_a": "passed"}
        (fault,) = ran.reading.outside
        said = r"pytest's end took longer than \d\.\d s; alive in it: never_ends \(test_a.py:\d\)"
        assert re.fullmatch(said, fault.cause.verdict.reason)
        assert "in never_ends" in fault.cause.text
        assert ran.code == 1


def test_the_limit_of_the_shard_tells_what_ran_then_and_what_did_not(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import time
                def test_a(): pass
                def test_b(): time.sleep(1000)
                def test_c(): pass
            """
        }
    )
    a, b, c = (f"tests/test_a.py::test_{name}" for name in "abc")
    ran = here.run(here.order((a, b), (c,), timeout_s=6.0, retries=2))
    assert ran.verdicts == {
        a: "passed",
        b: "timed_out(the shard's limit is 6 s)",
        c: "not_run(the shard's limit is 6 s)",
    }
    assert "in test_b" in ran.results[b].attempts[0].causes[0].text
    assert len(ran.results[b].attempts) == 1
    assert ran.reading.complete


def alive(pid: int) -> bool:
    from exacthead.runs.process import read_process

    process = read_process(pid)
    return process is not None and process.state not in "ZX"
