"""Many processes, killed processes, waiting processes: a worker is whole or it is not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Yard

    from exacthead.workers.spec import Spec

ASKING = Path(__file__).with_name("asking.py")
# Long enough to be caught in; a probe is where a build can be made to wait.
SLOW = "import time\ntime.sleep({seconds})\nNAME = 'alpha'\n"


def request(yard: Yard, spec: Spec, *, deadline_s: float = 300.0) -> Path:
    path = yard.folder / f"request-{spec.key[:8]}.json"
    data = {
        "store": str(yard.folder / "store"),
        "spec": asdict(spec),
        "uv_arguments": yard.supplies["uv_arguments"],
        "deadline_s": deadline_s,
    }
    path.write_text(json.dumps(data, default=str))
    return path


@contextmanager
def builder(yard: Yard, spec: Spec) -> Iterator[subprocess.Popen[str]]:
    """A process group of its own that asks for ``spec`` and prints the stages of the build."""
    process = subprocess.Popen(
        [sys.executable, ASKING, request(yard, spec), "1"],
        stdout=subprocess.PIPE,
        text=True,
        env={**yard.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    try:
        with process:
            yield process
            kill_group(process)
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for_stage(process: subprocess.Popen[str], stage: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("stage") == stage:
            return
    pytest.fail(f"the build ended before the stage {stage!r}")


def test_64_processes_ask_at_once_and_one_builds(yard: Yard) -> None:
    spec = yard.spec()
    done = subprocess.run(
        [sys.executable, ASKING, request(yard, spec), "64"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**yard.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 64
    assert [answer for answer in answers if "error" in answer] == []
    assert sum(not answer["reused"] for answer in answers) == 1
    assert len({answer["root"] for answer in answers}) == 1
    assert yard.store().verify(spec.key) == []


STAGES = ("venv", "sync", "compile", "probes", "manifest", "publish")


@pytest.mark.parametrize("delay_ms", [0, 70])
@pytest.mark.parametrize("stage", STAGES)
def test_a_builder_killed_at_any_moment_leaves_nothing_that_looks_ready(
    yard: Yard, stage: str, delay_ms: int
) -> None:
    store = yard.store()
    spec = yard.spec()
    with builder(yard, spec) as process:
        wait_for_stage(process, stage)
        time.sleep(delay_ms / 1000)
        kill_group(process)
        process.wait(timeout=60)
    found = store.find(spec.key)
    published = found is not None and found.state == "ready"
    if published:
        # The kill came after the record: then the worker must be whole.
        assert store.verify(spec.key) == []
    after = yard.ensure(spec, store)
    assert after.reused == published
    assert store.verify(spec.key) == []


def test_a_worker_killed_before_its_record_is_built_again(yard: Yard) -> None:
    """The case above that leaves no choice: the kill comes while a probe is still running."""
    store = yard.store()
    spec = yard.spec(lock=yard.wheel("alpha", {"alpha.py": SLOW.format(seconds="3")}))
    with builder(yard, spec) as process:
        wait_for_stage(process, "probes")
        kill_group(process)
        process.wait(timeout=60)
    # What the builder had started holds its claim for as long as it takes to die.
    deadline = time.monotonic() + 60
    while (found := store.find(spec.key[:32])) and found.state == "building":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found is not None
    assert found.state == "unfinished"
    assert (found.root / "bin" / "python").exists()
    assert not yard.ensure(spec, store).reused


def test_an_orphan_of_a_killed_builder_keeps_the_worker_claimed(yard: Yard) -> None:
    store = yard.store()
    spec = yard.spec(lock=yard.wheel("alpha", {"alpha.py": SLOW.format(seconds="600")}))
    with builder(yard, spec) as process:
        wait_for_stage(process, "probes")
        deadline = time.monotonic() + 60
        family: list[psutil.Process] = []
        while not family and time.monotonic() < deadline:
            family = psutil.Process(process.pid).children(recursive=True)
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        assert all(orphan.is_running() for orphan in family)
        with pytest.raises(HarnessError, match="it has ended; a process that it started"):
            yard.ensure(spec, store, deadline_s=0.3)
        assert store.gc(0) == []
        for orphan in family:
            orphan.kill()
    psutil.wait_procs(family, timeout=60)
    assert store.gc(0) == [spec.key[:32]]


def test_a_waiter_gives_up_at_its_deadline_and_names_the_holder(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": SLOW.format(seconds="600")})
    with builder(yard, yard.spec("holder's name", lock)) as process:
        wait_for_stage(process, "probes")
        spec = yard.spec("waiter's name", lock)
        assert [record.state for record in store.list()] == ["building"]
        with pytest.raises(HarnessError) as raised:
            yard.ensure(spec, store, deadline_s=0.3)
        said = str(raised.value)
        assert f"pid {process.pid} on " in said
        assert "holder's name" in said
        assert "waiter's name" in said
        assert ", since 20" in said


def test_a_build_that_does_not_end_is_ended_at_the_deadline(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": SLOW.format(seconds="600")})
    spec = yard.spec(lock=lock)
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(HarnessError, match="did not end before the deadline"):
        yard.ensure(spec, store, deadline_s=5)
    assert set(psutil.Process().children(recursive=True)) <= before
    assert store.list() == []
