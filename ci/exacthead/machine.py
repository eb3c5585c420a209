"""What a session needs of the machine, checked first and reported all at once."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psutil

from exacthead.errors import HarnessError
from exacthead.runs.oom import own_group
from exacthead.tables import Runner
from exacthead.workers.interpreter import find

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.runs.oom import MemoryGroup
    from exacthead.tables import Job, Worker

# Free space that is asked for, in GB of 10^9 bytes: for one run, for a worker that is not built
# yet, for one with torch (measured: 6.7 GB on an empty cache of uv), and for each further one with
# torch, most of which is hard links.
_RUN_GB = 1.0
_LIGHT_GB = 0.5
_HEAVY_GB = 8.0
_MORE_GB = 2.0


@dataclass(frozen=True)
class Need:
    """One thing that must be there: its name, a test that says what is wrong, how to get it."""

    name: str
    problem: Callable[[], str | None]
    todo: str


def check(needs: Iterable[Need]) -> None:
    """Raise one error that lists everything missing, or return.

    Raises:
        HarnessError: every unmet need with what was found and the Debian package that brings it.
    """
    missing = [(need, problem) for need in needs if (problem := need.problem()) is not None]
    if missing:
        raise HarnessError(
            "a machine that this session can run on",
            "\n    " + "\n    ".join(f"{need.name}: {problem}" for need, problem in missing),
            "\n    " + "\n    ".join(dict.fromkeys(need.todo for need, _ in missing)),
        )


def needs(
    harness: Harness, workers: Iterable[str], flavour: str, cache: Path, ready: Collection[str]
) -> list[Need]:
    """What building and running ``workers`` needs: git, disk, libraries, an interpreter of each.

    Args:
        harness: the repository's declarations.
        workers: names of the workers that will be used.
        flavour: of the workers.
        cache: the folder they are built in.
        ready: names of workers that need no more disk.
    """
    names = sorted(set(workers))
    wanted = {name: harness.worker(name) for name in names}
    built = {name: worker for name, worker in wanted.items() if worker.provided is None}
    missing = [worker for name, worker in built.items() if name not in ready]
    disk_gb = _disk_gb(missing, flavour)
    found = [
        Need("git", _absent("git"), "apt-get install git"),
        Need("bash", _absent("bash"), "apt-get install bash"),
        Need(f"{disk_gb:g} GB of disk", partial(_disk, cache, disk_gb), f"free space at {cache}"),
    ]
    if built:
        found.append(Need("uv", _absent("uv"), "call ./noxw, which brings its own, or install uv"))
    if flavour == "cpu" and any(_has(worker, flavour, "vllm") for worker in wanted.values()):
        found.append(Need("libnuma.so.1 (vLLM on CPU)", _no_libnuma, "apt-get install libnuma1"))
    found += [
        Need(
            f"Python {floor or minor}",
            partial(_no_interpreter, minor, floor, below=below),
            f"`uv python install {minor}`, pyenv, or apt-get install python{minor} where"
            " the Debian release has it",
        )
        for minor, floor, below in dict.fromkeys(
            (worker.python, worker.patch_floor, worker.below_patch_floor)
            for worker in built.values()
        )
    ]
    return found


def this_runner(group: MemoryGroup | None = None) -> Runner:
    """The machine's own resources; memory in GB of 10^9 bytes.

    Args:
        group: the control group whose limit holds here, as of a container; the process's own
            unless given.
    """
    memory = psutil.virtual_memory().total
    limit = (group or own_group()).limit
    smi = shutil.which("nvidia-smi")
    accelerators = 0
    if smi:
        listed = subprocess.run([smi, "--list-gpus"], capture_output=True, text=True, check=False)
        accelerators = len(listed.stdout.splitlines()) if listed.returncode == 0 else 0
    return Runner(
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=round((memory if limit is None else min(memory, limit)) / 1e9, 1),
        accelerators=accelerators,
    )


def check_runner(job_name: str, job: Job, runner_name: str, runner: Runner) -> None:
    """Refuse a job that asks for more than the runner has, with the numbers of both.

    Raises:
        HarnessError: naming each resource that falls short.
    """
    if short := runner.short_of(job, f"{runner_name} has"):
        raise HarnessError(
            f"run job {job_name!r} on runner {runner_name!r}",
            "; ".join(short),
            "choose a larger runner, or lower what the job asks for in harness.toml",
        )


def _absent(program: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(program) else f"no {program} on PATH"


def _disk_gb(missing: Collection[Worker], flavour: str) -> float:
    heavy = sum(_has(worker, flavour, "torch", "vllm") for worker in missing)
    torches = _HEAVY_GB + (heavy - 1) * _MORE_GB if heavy else 0.0
    return _RUN_GB + torches + (len(missing) - heavy) * _LIGHT_GB


def _disk(folder: Path, wanted_gb: float) -> str | None:
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free / 1e9
    return None if free >= wanted_gb else f"{free:.1f} GB free at {there}"


def _no_libnuma() -> str | None:
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError as error:
        return str(error)
    return None


def _no_interpreter(minor: str, floor: str | None, *, below: bool) -> str | None:
    try:
        find(minor, floor, below_floor_allowed=below)
    except HarnessError as error:
        return error.found
    return None


def _has(worker: Worker, flavour: str, *projects: str) -> bool:
    """Whether a requirement of the worker begins with one of the projects' names."""
    added = [table.requirements for name, table in worker.flavours.items() if name == flavour]
    return any(
        line.startswith(projects) for lines in (worker.requirements, *added) for line in lines
    )
