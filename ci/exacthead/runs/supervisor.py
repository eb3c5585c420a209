"""The process between the harness and an item: it starts the item, bounds it and ends all of it.

Run as ``python -S -E -c "...main()"`` in a session of its own. Standard input is a pipe that the
harness holds: its first line is the order (JSON), a later ``interrupt`` line ends the item, and its
end means that the harness is gone: the item is ended then too, however the harness died. Standard
output carries one JSON line, the facts. As a child subreaper the supervisor gets every orphan of
the item back, so that nothing a leg starts can leave its tree.

Standard library only, with the modules beside it that say so too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from exacthead.runs import leftovers, process, stacks
from exacthead.runs.memory import MemoryPeak
from exacthead.runs.oom import own_group
from exacthead.runs.order import Facts, Order, read_order

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_TICK_S = 0.1
_STACKS_S = 2.0
# Five seconds is what an interrupted run may take; this leaves room for the harness.
_HURRIED_GRACE_S = 2.0
_KILL_S = 2.0


class Supervisor:
    """One item's life, from its order to its facts."""

    def __init__(self, order: Order, control: int) -> None:
        self.order = order
        self.facts = Facts()
        self._control = control
        self._told: str | None = None
        self._exit: int | None = None
        self._pid = 0
        self._shared = leftovers.SharedMemory()
        self._memory = MemoryPeak(lambda: process.members(None, os.getpid()))

    def run(self) -> Facts:
        """Start the item, wait for its end, end what is left of it."""
        group = own_group()
        killed_before = group.kills()
        started = time.monotonic()
        try:
            self._pid = self._start()
        except (OSError, subprocess.SubprocessError) as error:
            self.facts.ended_by, self.facts.error = "start", str(error)
        else:
            self.facts.ended_by = self._wait(started + self.order.timeout_s)
            self.facts.seconds = time.monotonic() - started
            self._finish()
            self.facts.returncode = self._exit
        self.facts.oom_kills = group.kills() - killed_before
        if self.facts.ended_by != "exit" or self._exit != 0 or self.facts.leftovers:
            self._keep_artifacts()
        if not self.order.keep_private:
            self.facts.notes += _remove_tree(self.order.private)
        return self.facts

    def _start(self) -> int:
        for folder in self.order.folders:
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        with Path(self.order.log).open("ab") as log:
            child = subprocess.Popen(
                self.order.command,
                cwd=self.order.cwd,
                env=self.order.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_prepare_child,  # noqa: PLW1509 - this process has one thread only
            )
        # It is reaped below together with the orphans; Popen must not wait for it as well.
        child.returncode = 0
        return child.pid

    def _wait(self, deadline: float) -> str:
        handle = os.pidfd_open(self._pid)
        try:
            while True:
                select.select([handle, self._control], [], [], _TICK_S)
                self._reap()
                if self._exit is not None:
                    return "exit"
                if self.hurry():
                    return self._told or "interrupt"
                if time.monotonic() >= deadline:
                    return "timeout"
                self._shared.look(lambda: process.members(None, os.getpid()))
                self._memory.sample()
                self.facts.peak_pss_mb = self._memory.peak_mb
                if (self.order.memory_limit_mb or math.inf) < self._memory.peak_mb:
                    return "memory"
        finally:
            os.close(handle)

    def hurry(self) -> bool:
        """Whether the harness asked for the end, or is gone."""
        while self._told is None and select.select([self._control], [], [], 0)[0]:
            data = os.read(self._control, 4096)
            if not data:
                self._told = "harness"
            elif b"interrupt" in data:
                self._told = "interrupt"
        return self._told is not None

    def interrupt(self, *_: object) -> None:
        """A signal sent to the supervisor itself means the same as the harness's word."""
        self._told = self._told or "interrupt"

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._exit = os.waitstatus_to_exitcode(status)

    def _members(self) -> list[process.Process]:
        self._reap()
        return process.members(self.order.token, os.getpid())

    def _finish(self) -> None:
        """End everything of the item; only after a script's own end is the rest its fault."""
        by_itself = self.facts.ended_by == "exit"
        if self.facts.ended_by == "timeout":
            self._dump_stacks()
        if by_itself:
            self._let_go()
        rest = self._members()
        self._shared.look(lambda: rest)
        found = leftovers.describe(rest) if by_itself else []
        if by_itself and rest and self._told is not None:
            # The grace was cut short, so what is left is nobody's fault.
            self.facts.ended_by, by_itself, found = self._told, False, []
        stuck = process.end(
            self._members,
            grace_s=self._grace(self.facts.ended_by),
            kill_s=_KILL_S,
            # Once told to hurry, this last grace stays; being told again changes nothing.
            hurry=self.hurry if self._told is None else lambda: False,
        )
        found += [f"could not be ended: {sentence}" for sentence in leftovers.describe(stuck)]
        found += self._other_leftovers(rest, by_itself=by_itself)
        self.facts.leftovers = tuple(found)

    def _grace(self, ended_by: str) -> float:
        if ended_by in {"timeout", "memory"} and self._told is None:
            return self.order.grace_s
        return min(self.order.grace_s, _HURRIED_GRACE_S)

    def _let_go(self) -> None:
        """Give processes that are already going the time to go."""
        deadline = time.monotonic() + self.order.leftover_grace_s
        while self._members() and time.monotonic() < deadline and not self.hurry():
            time.sleep(_TICK_S / 2)

    def _other_leftovers(self, ended: list[process.Process], *, by_itself: bool) -> list[str]:
        found: list[str] = []
        notes = list(self.facts.notes)
        shared = self._shared.left()
        kept = self._shared.remove_left()
        sentences = [f"shared memory {self._shared.folder}/{name}" for name in shared]
        # A killed process could not tidy up: then its shared memory is only told, not held
        # against the item.
        (found if by_itself else notes).extend(sentences)
        notes += [f"{self._shared.folder}/{name} is in use elsewhere and was kept" for name in kept]
        notes += [
            f"{self._shared.folder}/{name} is new since the start; nobody holds it, so whose it is "
            "cannot be told"
            for name in self._shared.unexplained()
        ]
        low, high = self.order.ports
        notes += [
            f"a process outside this item listens on port {each.port} of its range"
            for each in leftovers.listeners()
            if low <= each.port <= high
        ]
        pids = {each.pid for each in ended}
        if pids:
            found += [
                f"{used} MiB of accelerator memory still booked to the ended process {pid}"
                for pid, used in leftovers.accelerator_mb().items()
                if pid in pids
            ]
        self.facts.notes = tuple(notes)
        return found

    def _keep_artifacts(self) -> None:
        for name in self.order.keep_when_red:
            source = Path(self.order.private, name)
            target = Path(self.order.artifacts, name)
            try:
                if source.is_dir():
                    shutil.copytree(source, target, dirs_exist_ok=True, ignore=_not_files)
                elif source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
            except OSError as error:
                self.facts.notes += (f"{name} could not be kept: {error}",)

    def _dump_stacks(self) -> None:
        folder = Path(self.order.stacks_folder)
        text = stacks.dump(self._members(), folder, wait_s=_STACKS_S, hurry=self.hurry)
        try:
            Path(self.order.stacks_file).write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            self.facts.notes += (f"the stacks could not be kept: {error}",)


def _not_files(folder: str, names: list[str]) -> list[str]:
    """What a copy of a folder leaves out: sockets, pipes and dangling links."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if not (path.is_dir() or path.is_file())]


def _prepare_child() -> None:
    """In the item's first process, before its program: die with the supervisor, dump no core."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _open(folder: Path) -> None:
    """Let the owner into a folder; where that cannot be, its removal will say so."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            folder.chmod(0o700)


def _remove_tree(folder: str) -> tuple[str, ...]:
    """Remove the item's private folder, closed folders in it included; a note of what stays."""
    kept: list[str] = []

    def note(_function: Any, path: str, reason: Any) -> None:
        kept.append(f"temporary files could not be removed: {path}: {reason[1].strerror}")

    if Path(folder).exists():
        shutil.rmtree(folder, onerror=note)
    if kept:
        # Seldom needed, and a walk over as many files again: so only now.
        kept.clear()
        _open(Path(folder))
        for parent, names, _ in os.walk(folder):
            for name in names:
                _open(Path(parent, name))
        shutil.rmtree(folder, onerror=note)
    return tuple(kept[:1])


def main() -> None:
    """Read the order, run the item, write the facts."""
    control, report = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    order, interrupted = read_order(control)
    supervisor = Supervisor(order, control)
    if interrupted:
        supervisor.interrupt()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, supervisor.interrupt)
    line = f"{json.dumps(asdict(supervisor.run()))}\n".encode()
    with contextlib.suppress(BrokenPipeError):  # the harness is gone, and so is the item
        while line:  # a signal can cut a long one short
            line = line[os.write(report, line) :]
