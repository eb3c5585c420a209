"""One pytest process of a worker, seen from the driver: its start, its state, its end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.runs import stacks
from exacthead.units import family
from exacthead.units.death import crash_stacks, last_bytes
from exacthead.units.inside.text import decoded
from exacthead.units.kills import Kills
from exacthead.units.settings import RUN, Settings
from exacthead.units.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.units.order import ShardOrder
    from exacthead.units.places import ProcessFiles

_STACKS_S = 2.0
# Time to save what was measured.
_GRACE_S = 2.0


class PytestProcess:
    """A running process and what its events have told so far.

    Attributes:
        number: its number in the shard, from 1.
        groups: its snapshot of the common list.
        claimed: node ids that it was handed and that have no end yet, in order.
        test: the test in flight; empty between tests.
        file: what is being collected; empty when nothing is.
        uncollectable: how that ended pytest; empty when it did not.
        since: when it last went from one thing to the next, of the monotonic clock.
        ready: it has collected everything.
        ending: its tests are over; what is left is pytest's end.
        stopped: why pytest wants no further test to run; empty when it does.
        finished: the exit code that it announced; None before.
        broken: an error came out of a test and ended pytest.
        asked: it has asked for work.
        failures: tests and files that failed in it were seen.
        told_fault: it has told of a fault that belongs to no test.
        kills: what the kernel's out-of-memory killer does meanwhile.
        returncode: as of ``subprocess``; None while it runs.
    """

    def __init__(self, number: int, files: ProcessFiles, groups: list[list[str]]) -> None:
        self.number, self.files, self.groups = number, files, groups
        self.claimed: dict[str, None] = {}
        self.test, self.file, self.last_test = "", "", ""
        self.since = self.started = time.monotonic()
        self.ready = self.broken = self.asked = self.ending = False
        self.failures = self.told_fault = False
        self.stopped = self.trouble = self.uncollectable = ""
        self.finished: int | None = None
        self.returncode: int | None = None
        self.pid, self.handle = 0, -1
        self.channel: socket.socket | None = None
        self.kills = Kills()
        self._mark = f"{os.getpid()}.{number}"
        self._tail = Tail(files.stream)
        self._question = b""
        self._captured: dict[str, int] = {}
        self._stacks = Path()

    def start(
        self, order: ShardOrder, excluded: list[str], stacks_folder: Path, more: Mapping[str, str]
    ) -> None:
        """Start it in a session of its own.

        Raises:
            OSError: the interpreter cannot be started.
        """
        self._stacks = stacks_folder
        Settings(
            paths=order.paths,
            arguments=order.arguments,
            groups=self.groups,
            known=() if order.elsewhere is None else (*order.nodeids, *order.elsewhere),
            excluded=excluded,
            collect=False,
            stream=str(self.files.stream),
            log=str(self.files.log),
            crash=str(self.files.crash),
            stacks=str(stacks_folder),
        ).write(self.files.settings)
        mine, theirs = socket.socketpair()
        with theirs, self.files.log.open("ab") as log:
            child = subprocess.Popen(
                [order.python, str(RUN), str(self.files.settings), str(theirs.fileno())],
                cwd=order.root,
                env={**os.environ, **more, family.MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                preexec_fn=family.die_with_parent,  # noqa: PLW1509 - the driver has one thread
            )
        child.returncode = 0  # the driver reaps it together with the orphans
        self.pid, self.channel = child.pid, mine
        self.handle = os.pidfd_open(child.pid)

    def news(self) -> list[dict[str, Any]]:
        """The events that came since the last call; the state follows them."""
        events = self._tail.read()
        for event in events:
            self._follow(event)
        return events

    def _follow(self, event: Mapping[str, Any]) -> None:
        if isinstance(event.get("at"), float):
            self.since = event["at"]
        match event["event"]:
            case "collecting":
                self.file = event["file"]
            case "collected":
                self.file = ""
            case "uncollectable":
                self.file, self.uncollectable = event["file"], event["reason"]
            case "ready":
                self.ready = True
            case "begin":
                self.test = event["test"]
            case "end" | "broken":
                self.broken = event["event"] == "broken"
                self.last_test, self.test = self.test, ""
                self.since = time.monotonic()
                self.claimed.pop(event["test"], None)
            case "missing" | "told":
                self.claimed.pop(event["test"], None)
            case _:
                self._follow_trouble(event)

    def _follow_trouble(self, event: Mapping[str, Any]) -> None:
        """What bears on how its end is judged."""
        match event["event"]:
            case "phase" | "file":
                self.failures |= event["outcome"] not in {"passed", "skipped"}
            case "fault":
                self.told_fault |= event["phase"] == "teardown"
            case "stopped":
                self.stopped = event["reason"]
            case "internal" | "interrupt":
                self.trouble = event.get("text") or event["reason"]
            case "finishing":
                self.ending = True
            case "finish":
                self.ending = True
                self.finished, self.since = event["code"], time.monotonic()

    def question(self) -> str | None:
        """The question that waits on the channel; None when there is no whole one."""
        if self.channel is None:
            return None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            data = self.channel.recv(1 << 16, socket.MSG_DONTWAIT)
            if not data:
                self._close_channel()
            self._question += data
        line, end, rest = self._question.partition(b"\n")
        if not end:
            return None
        self._question, self.asked = rest, True
        asked = json.loads(line)
        self._open_captured(asked.get("files", {}))
        return str(asked["ask"])

    def answer(self, **fields: object) -> None:
        """Answer its question; when it has died meanwhile, its end is told elsewhere."""
        if self.channel is not None:
            with contextlib.suppress(ConnectionError):
                self.channel.sendall(json.dumps(fields).encode() + b"\n")

    def _open_captured(self, files: Mapping[str, int]) -> None:
        """Hold its capture files open too: they have no name, and must outlive it."""
        for name, descriptor in files.items():
            if name not in self._captured:
                with contextlib.suppress(OSError):  # it has died; then its log must do
                    path = f"/proc/{self.pid}/fd/{descriptor}"
                    self._captured[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def captured(self) -> dict[str, list[str]]:
        """What the phase in flight wrote, by stream, in chunks."""
        return {
            name: list(decoded(fd, 0, os.fstat(fd).st_size)) for name, fd in self._captured.items()
        }

    def where_it_stands(self) -> str:
        """The stacks of all its processes, as far as they can be had."""
        processes = family.family(self.pid, self._mark)
        return stacks.dump(processes, self._stacks, wait_s=_STACKS_S, hurry=lambda: False)

    def crash_stacks(self) -> str:
        """What the fault handler left."""
        return crash_stacks(self.files.crash)

    def log_end(self) -> str:
        """The end of its log."""
        return last_bytes(self.files.log)

    def end(self, grace_s: float = _GRACE_S) -> None:
        """End it and all that it started."""
        family.end(self.pid, self._mark, grace_s=grace_s)

    def wait(self) -> int:
        """Wait for its end; returns its exit code, negative for a signal.

        It stays a zombie, so that its pid and session are nobody else's until it is reaped.
        """
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if ended is None:
            raise ChildProcessError(self.pid)
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def close(self) -> None:
        """Let go of everything that was held for it."""
        self._close_channel()
        for descriptor in (self.handle, *self._captured.values()):
            os.close(descriptor)
        self._captured, self.handle = {}, -1

    def _close_channel(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None
