"""Owner: the process that a container belongs to, never mistaken for another."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.runs.process import read_process

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PIDS = Path("/proc/self/ns/pid")
_MACHINE = Path("/etc/machine-id")


@dataclass(frozen=True)
class Owner:
    """The harness that started a container, and for what.

    Attributes:
        run: the id of its run; empty for what belongs to none.
        item: the item's id.
        pid: of the harness.
        started: when that process began, in clock ticks since boot.
        boot: this boot of this machine.
        pids: the table that ``pid`` is a number of; another container has another one.
        machine: this machine, also after its next boot; empty where it has no name.
    """

    run: str
    item: str
    pid: int
    started: int
    boot: str
    pids: str
    machine: str = ""

    def label(self) -> str:
        """The text of the label."""
        return json.dumps(asdict(self), sort_keys=True)

    def gone(self) -> bool | None:
        """Whether that harness has ended; None where that cannot be told from here."""
        if self.boot != _boot():
            # An engine reached through a socket may be another machine's, whose harness lives.
            return True if self.machine and self.machine == _machine() else None
        if self.pids != _pids():
            return None
        process = read_process(self.pid)
        return process is None or process.started != self.started or process.state in "ZX"


def this(run: str = "", item: str = "") -> Owner:
    """This process as the owner of what it starts."""
    process = read_process(os.getpid())
    started = process.started if process else 0
    return Owner(run, item, os.getpid(), started, _boot(), _pids(), _machine())


def read(labels: Mapping[str, str], label: str) -> Owner | None:
    """The owner that a container's labels name; None when they name none that we can read."""
    try:
        fields = json.loads(labels[label])
        return Owner(**fields)
    except (KeyError, ValueError, TypeError):
        return None


def _boot() -> str:
    return _BOOT.read_text(encoding="ascii").strip()


def _machine() -> str:
    return _MACHINE.read_text(encoding="ascii").strip() if _MACHINE.is_file() else ""


def _pids() -> str:
    return str(_PIDS.readlink())
