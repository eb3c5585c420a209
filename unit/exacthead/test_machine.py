from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from exacthead import machine
from exacthead.runs.oom import MemoryGroup


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
