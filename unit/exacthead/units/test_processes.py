"""Several processes, fresh ones for retries, and an end whenever it is asked for."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from exacthead.units.read import read_results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from unit.exacthead.units.small import Suite

SHARED = """
    import os, pytest

    def note(word):
        with open("notes.txt", "a") as file:
            file.write(f"{os.getpid()} {word}\\n")

    @pytest.fixture(scope="session")
    def engine():
        note("engine up")
        yield
        note("engine down")
"""
MODULE = """
    import pytest
    from conftest import note

    @pytest.fixture(scope="module")
    def table():
        note("table up")
        yield
        note("table down")

    @pytest.mark.parametrize("n", range(4))
    def test_n(n, engine, table): assert n != 2
    def test_dies(engine):
        if __name__.endswith("1"): __import__("os")._exit(1)
    def test_rest(engine): pass
"""


def files(count: int) -> dict[str, str]:
    modules = {f"tests/test_{number}.py": MODULE for number in range(count)}
    return {"conftest.py": SHARED, **modules}


def groups(count: int) -> tuple[tuple[str, ...], ...]:
    tests = (*(f"test_n[{n}]" for n in range(4)), "test_dies", "test_rest")
    whole = [tuple(f"tests/test_{number}.py::{test}" for test in tests) for number in range(count)]
    # One module is split.
    return (whole[0][:2], whole[0][2:], *whole[1:])


def test_two_processes_give_the_same_results_as_one(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(files(3))
    one = here.run(here.order(*groups(3)), "one")
    two = here.run(here.order(*groups(3), processes=2), "two")
    assert one.verdicts == two.verdicts
    assert list(one.kinds.values()).count("passed") == 3 * 5 - 1
    assert list(one.kinds.values()).count("crashed") == 1
    assert len({a.process for r in two.reading.results for a in r.attempts}) > 1


def test_fixtures_live_on_between_groups_and_end_with_the_last_test(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(files(2))
    keep = [tuple(id_ for id_ in group if "dies" not in id_) for group in groups(2)]
    ran = here.run(here.order(*keep))
    assert list(ran.kinds.values()).count("failed") == 2
    notes = [line.split()[1:] for line in (here.root / "notes.txt").read_text().splitlines()]
    assert [" ".join(words) for words in notes] == [
        *("engine up", "table up", "table down", "table up", "table down", "engine down")
    ]


def test_retries_are_attempts_in_fresh_processes(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import os
                seen = []
                def again(name):
                    with open(name, "a+") as file:
                        file.write("x")
                        return file.tell()
                def test_poisons(): seen.append(1)
                def test_poisoned(): assert not seen
                def test_never(): assert 0
                def test_crashes_once():
                    if again("crashed") == 1: os._exit(0)
                def test_fine(): assert again("fine") == 1
            """
        }
    )
    names = ("poisons", "poisoned", "never", "crashes_once", "fine")
    ids = tuple(f"tests/test_a.py::test_{name}" for name in names)
    ran = here.run(here.order(ids, retries=2))
    assert {
        name: [str(attempt.verdict.kind) for attempt in ran.results[id_].attempts]
        for name, id_ in zip(names, ids, strict=True)
    } == {
        "poisons": ["passed"],
        "poisoned": ["failed", "passed"],
        "never": ["failed"] * 3,
        "crashes_once": ["crashed", "passed"],
        "fine": ["passed"],
    }
    numbers = [a.process for r in ran.reading.results for a in r.attempts[1:]]
    assert len(set(numbers)) == len(numbers), "a process of its own for each retry"
    assert [name for name, id_ in zip(names, ids, strict=True) if ran.results[id_].flaky] == [
        *("poisoned", "crashes_once")
    ]
    assert {each.purpose for each in ran.reading.processes} == {"shard", "retry"}
    assert set(ran.reading.seconds) == {each.number for each in ran.reading.processes}
    assert "retry 1 of tests/test_a.py::test_poisoned: passed" in ran.said


SLOW = """
    import os, subprocess, time
    def test_done(): pass
    def test_slow():
        child = subprocess.Popen(["sleep", "1000"])
        with open("pids.tmp", "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        os.rename("pids.tmp", "pids")
        time.sleep(1000)
    def test_waits(): pass
"""


def pids(folder: Path) -> list[int]:
    deadline = time.monotonic() + 60
    while not (folder / "pids").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [int(word) for word in (folder / "pids").read_text().split()]


def gone(pid: int) -> bool:
    from exacthead.runs.process import read_process

    process = read_process(pid)
    return process is None or process.state in "ZX"


def test_told_to_stop_the_driver_ends_everything_and_says_so(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite({"tests/test_a.py": SLOW})
    done, slow, waits = (f"tests/test_a.py::test_{name}" for name in ("done", "slow", "waits"))
    order = here.order((done, slow), (waits,), retries=1)
    with here.start(order) as driver:
        started = pids(here.root)
        driver.send_signal(signal.SIGTERM)
        driver.communicate(timeout=60)
    assert driver.returncode == 4
    assert all(map(gone, started))
    reading = read_results(here.root / "item", order.nodeids, "")
    told = "the shard was told to stop (SIGTERM)"
    assert [str(result.verdict) for result in reading.results] == [
        "passed",
        f"interrupted({told})",
        f"not_run({told})",
    ]


def test_a_killed_driver_leaves_what_was_streamed_and_no_processes(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite({"tests/test_a.py": SLOW})
    done, slow, waits = (f"tests/test_a.py::test_{name}" for name in ("done", "slow", "waits"))
    order = here.order((done, slow), (waits,))
    with here.start(order) as driver:
        worker, child = pids(here.root)
        driver.kill()
        driver.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while not gone(worker):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if not gone(child):  # the item's supervisor would end it
        import os

        os.kill(child, signal.SIGKILL)
    reading = read_results(here.root / "item", order.nodeids, "")
    untold = "the driver ended without a word about it"
    assert [str(result.verdict) for result in reading.results] == [
        "passed",
        f"crashed({untold})",
        f"not_run({untold})",
    ]
    assert reading.faults == ("crashed(the shard's driver did not finish)",)
    told = read_results(here.root / "item", order.nodeids, "the item was killed")
    assert [str(result.verdict) for result in told.results[1:]] == [
        "interrupted(the item was killed)",
        "not_run(the item was killed)",
    ]
    assert told.faults == ()
    killed = read_results(here.root / "item", order.nodeids, "crashed(SIGKILL)", killed=True)
    assert [str(result.verdict) for result in killed.results] == [
        "passed",
        "crashed(its driver was killed while it ran)",
        "not_run(the shard's driver had been killed before its turn)",
    ]
