"""What was really used: provenance.json, so that a run can be judged and repeated later."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

import exacthead
from exacthead.environ import clean_environment
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exacthead.head import Head

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class Record(BaseModel):
    """A part of the provenance; closed, so that what is read back is what was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerUse(Record):
    """One worker as this run used it.

    ``how`` says whether it was built in this run, found ready, provided from outside, or is in the
    image that the run was in;
    ``packages`` is given for a provided one, whose key cannot tell its content.
    """

    name: str
    key: str
    flavour: str
    interpreter: str
    how: Literal["built", "reused", "provided", "image"]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


class Machine(Record):
    """Where it ran; memory in MiB."""

    kernel: str
    platform: str
    cpu: str
    cpus: int
    memory_mb: int
    accelerators: tuple[str, ...]


class Provenance(Record):
    """Everything that was used.

    Attributes:
        started: UTC, ISO 8601.
        commit: the head's commit.
        tree: its tree.
        dirty: whether the checkout differed from it.
        changed: what was changed in the checkout while the run went on: paths, or another head.
        harness: the harness's version.
        interpreter: the harness's own Python.
        packages: the harness's own distributions, ``name==version``.
        workers: the workers by name.
        locks: sha256 of each lock by name.
        fixtures: digest of each fixture by name.
        images: what images ran, by name.
        image_seconds: how long it took to have each, built or found.
        environment: inherited variables that reached the items; credentials in addresses are cut.
        machine: where it ran.
        parts: of a merged run, the ids of the runs in it; its machine, environment and packages
            are those of the merge.
    """

    started: str
    commit: str
    tree: str
    dirty: bool
    changed: tuple[str, ...] = ()
    harness: str
    interpreter: str
    packages: tuple[str, ...]
    workers: tuple[WorkerUse, ...]
    locks: dict[str, str]
    fixtures: dict[str, str]
    images: dict[str, str] = {}
    image_seconds: dict[str, float] = {}
    environment: dict[str, str]
    machine: Machine
    parts: tuple[str, ...] = ()


def gather(  # noqa: PLR0913 - what a run was given
    head: Head,
    *,
    workers: Sequence[WorkerUse],
    locks: Mapping[str, Path],
    fixtures: Mapping[str, str],
    images: Mapping[str, str] | None = None,
    image_seconds: Mapping[str, float] | None = None,
) -> Provenance:
    """Look at this machine and put it together with what the run was given.

    Raises:
        HarnessError: when a lock cannot be read.
    """
    return Provenance(
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        commit=head.commit,
        tree=head.tree,
        dirty=head.dirty,
        harness=exacthead.__version__,
        interpreter=f"{platform.python_implementation()} {platform.python_version()}",
        packages=tuple(
            sorted({f"{each.name}=={each.version}" for each in distributions(path=sys.path)})
        ),
        workers=tuple(sorted(workers, key=lambda worker: worker.name)),
        locks={name: _sha256(path) for name, path in sorted(locks.items())},
        fixtures=dict(sorted(fixtures.items())),
        images=dict(sorted((images or {}).items())),
        image_seconds=dict(sorted((image_seconds or {}).items())),
        environment={
            name: _CREDENTIALS.sub("***@", value)
            for name, value in sorted(clean_environment(os.environ).items())
        },
        machine=read_machine(),
    )


def read_machine() -> Machine:
    """This machine: kernel, processor, memory, accelerators."""
    return Machine(
        kernel=f"{platform.system()} {platform.release()}",
        platform=platform.platform(),
        cpu=_field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        cpus=len(os.sched_getaffinity(0)),
        memory_mb=int((_field(Path("/proc/meminfo"), "MemTotal") or "0").split()[0]) // 1024,
        accelerators=_accelerators(),
    )


def _field(path: Path, name: str) -> str:
    """The first ``name : value`` of a file in /proc; empty when the file has none."""
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _accelerators() -> tuple[str, ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return ("nvidia-smi did not answer in 10 s",)
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HarnessError(
            f"the lock {path} for the provenance", str(error), "make it with nox -s lock"
        ) from error
