"""What a session needs of the machine: programs, libraries, disk, ports, shared memory."""

from __future__ import annotations

import ctypes
import shutil
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.machine import this_runner
from exacthead.preflight.problem import Problem
from exacthead.runs.ports import claim_ports
from exacthead.workers.interpreter import find

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from exacthead.config import Harness
    from exacthead.preflight.case import Case
    from exacthead.tables import Resources, Worker
    from exacthead.workers.store import Store

NAME = "machine"
SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not written to
# Free space that is asked for, in GB of 10^9 bytes: for one run, for a worker that is not built
# yet, for one with torch (measured: 6.7 GB on an empty cache of uv), and for each further one with
# torch, most of which is hard links.
_RUN_GB = 1.0
_LIGHT_GB = 0.5
_HEAVY_GB = 8.0
_MORE_GB = 2.0


@dataclass(frozen=True)
class Need:
    """One thing that must be there: its name, a test that says what is wrong, how to get it.

    ``planning`` is whether a machine that only plans for another must have it too.
    """

    name: str
    problem: Callable[[], str | None]
    todo: str
    planning: bool = False


def check(case: Case) -> Iterator[Problem]:
    """What the machine lacks for a session's workers and items.

    Of items that run elsewhere it asks only what their plan is made of: git, and the interpreters
    that decide the workers' keys. The rest is asked again where they start.
    """
    wanted = worker_needs(case.harness, case.workers_here, case.flavour, case.store)
    if case.elsewhere:
        yield from lacking(need for need in wanted if need.planning)
        return
    yield from lacking(wanted)
    yield from _check_devices(case)
    try:
        with claim_ports():
            pass
    except HarnessError as error:
        yield Problem(NAME, error.asked, error.found, error.todo)
    if case.wanted is None:
        yield from _check_shared(case)
        yield from _check_ports(case)


def lacking(wanted: Iterable[Need]) -> Iterator[Problem]:
    """Every unmet need with what was found and the Debian package that brings it."""
    for need in wanted:
        if (problem := need.problem()) is not None:
            yield Problem(NAME, need.name, problem, need.todo)


def worker_needs(harness: Harness, names: Iterable[str], flavour: str, store: Store) -> list[Need]:
    """The needs of workers, of which some may be ready in the store."""
    there = {name for each in store.list() if each.state == "ready" for name in each.names}
    return needs(harness, names, flavour, store.layout.root, there)


def _check_devices(case: Case) -> Iterator[Problem]:
    """Accelerators that the named runner has and this machine, which would start them, has not."""
    asked = {
        **{f"suite {name!r}": suite.accelerators for name, suite in case.suites.items()},
        **{f"job {name!r}": job.accelerators for name, job in case.jobs.items()},
    }
    if not any(asked.values()):
        return
    there = this_runner().accelerators
    for who, wanted in asked.items():
        if there < wanted <= case.runner.accelerators:
            yield Problem(
                NAME,
                f"{wanted} accelerators for {who}",
                f"{case.runner_name} has {case.runner.accelerators}, and this machine, which would"
                f" run it, has {there}",
                f"start it on a machine that is {case.runner_name}; `plan` may be asked anywhere",
            )


def _check_shared(case: Case) -> Iterator[Problem]:
    tables: dict[str, Resources] = {}
    tables |= {f"suite {name!r}": suite for name, suite in case.suites.items()}
    tables |= {f"job {name!r}": job for name, job in case.jobs.items()}
    asked = {who: table.shared_memory_gb for who, table in tables.items() if table.shared_memory_gb}
    if not asked:
        return
    free = shutil.disk_usage(SHARED).free / 1e9 if SHARED.is_dir() else 0.0
    for who, wanted in asked.items():
        if wanted > free:
            yield Problem(
                NAME,
                f"{wanted:g} GB of shared memory for {who}",
                f"{free:.1f} GB free at {SHARED}",
                "end what fills it, or mount it larger (mount -o remount,size=... /dev/shm)",
            )


def _check_ports(case: Case) -> Iterator[Problem]:
    """Fixed ports of recipes; they are only looked at, and who binds one later still says so."""
    told = set()
    for leg in case.legs:
        answer = case.answers.get(leg.id)
        for port in answer.ports if answer else ():
            if port in told:
                continue
            told.add(port)
            with socket.socket() as bound:
                try:
                    bound.bind(("127.0.0.1", port))
                except OSError as error:
                    yield Problem(
                        NAME,
                        f"port {port} for recipe {leg.job.recipe}",
                        error.strerror or str(error),
                        "end what listens there (ss -ltnp), or let the recipe take free ports",
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
        Need("git", _absent("git"), "apt-get install git", planning=True),
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
            partial(no_interpreter, minor, floor, below=below),
            f"`uv python install {minor}`, pyenv, or apt-get install python{minor} where"
            " the Debian release has it",
            planning=True,
        )
        for minor, floor, below in dict.fromkeys(
            (worker.python, worker.patch_floor, worker.below_patch_floor)
            for worker in built.values()
        )
    ]
    return found


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


def no_interpreter(minor: str, floor: str | None, *, below: bool) -> str | None:
    """Why there is no interpreter for a worker; None when there is one."""
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
