"""What a session needs of the machine, checked first and reported all at once."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from exacthead.config import Runner
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from exacthead.config import Harness, Job, Worker

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
            "\n    " + "\n    ".join(need.todo for need, _ in missing),
        )


def needs(harness: Harness, workers: Iterable[str], cache: Path, disk_gb: float) -> list[Need]:
    """What building and running ``workers`` needs: git, disk, libraries, an interpreter of each.

    Args:
        harness: the repository's declarations.
        workers: names of the workers that will be used.
        cache: the folder they are built in, whose file system needs ``disk_gb`` GB.
        disk_gb: free space asked for, in GB of 10^9 bytes.
    """
    from exacthead.workers.interpreter import find

    wanted = [harness.worker(name) for name in sorted(set(workers))]
    found = [
        Need("git", _absent("git"), "apt-get install git"),
        Need(f"{disk_gb:g} GB of disk", lambda: _disk(cache, disk_gb), f"free space at {cache}"),
    ]
    if any("vllm" in package for worker in wanted for package in _requirements(worker)):
        found.append(
            Need("libnuma.so.1 (vLLM on CPU)", _no_library, "apt-get install libnuma1")
        )

    def interpreter(minor: str, floor: str | None, below: bool) -> Callable[[], str | None]:
        def problem() -> str | None:
            try:
                find(minor, floor, below_floor_allowed=below)
            except HarnessError as error:
                return error.found
            return None

        return problem

    for minor, floor, below in sorted(
        {(w.python, w.patch_floor or "", w.below_patch_floor) for w in wanted if not w.provided}
    ):
        found.append(
            Need(
                f"Python {floor or minor}",
                interpreter(minor, floor or None, below),
                f"`uv python install {minor}`, pyenv, or apt-get install python{minor} where"
                " the Debian release has it",
            )
        )
    return found


def this_runner() -> Runner:
    """The machine's own resources; memory in GB of 10^9 bytes."""
    smi = shutil.which("nvidia-smi")
    accelerators = 0
    if smi:
        listed = subprocess.run([smi, "--list-gpus"], capture_output=True, text=True, check=False)
        accelerators = len(listed.stdout.splitlines()) if listed.returncode == 0 else 0
    return Runner(
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        accelerators=accelerators,
    )


def check_runner(job_name: str, job: Job, runner_name: str, runner: Runner) -> None:
    """Refuse a job that asks for more than the runner has, with the numbers of both.

    Raises:
        HarnessError: naming each resource that falls short.
    """
    short = [
        f"{what}: asks {asked:g}, {runner_name} has {has:g}"
        for what, asked, has in (
            ("cpus", job.cpus, runner.cpus),
            ("memory in GB", job.memory_gb, runner.memory_gb),
            ("accelerators", job.accelerators, runner.accelerators),
        )
        if asked > has
    ]
    if short:
        raise HarnessError(
            f"run job {job_name!r} on runner {runner_name!r}",
            "; ".join(short),
            "choose a larger runner, or lower what the job asks for in harness.toml",
        )


def _absent(program: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(program) else f"no {program} on PATH"


def _disk(folder: Path, wanted_gb: float) -> str | None:
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free / 1e9
    return None if free >= wanted_gb else f"{free:.1f} GB free at {there}"


def _no_library() -> str | None:
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError as error:
        return str(error)
    return None


def _requirements(worker: Worker) -> list[str]:
    flavours = [r for flavour in worker.flavours.values() for r in flavour.requirements]
    return [*worker.requirements, *flavours]
