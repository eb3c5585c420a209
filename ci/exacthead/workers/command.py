"""Commands of a build: run one after the other, logged, bounded, and never left behind."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Progress = Callable[[str], None]

_TAIL_LINES = 25
_NO_SPACE = "No space left on device"
_CREDENTIALS = re.compile(r"//[^/@\s]+@")


@dataclass(frozen=True)
class Commands:
    """Where the commands of one build report to, and what bounds them.

    Attributes:
        worker: the name of what is built, for errors.
        log: a file that all output is appended to.
        lock: a descriptor that each command inherits, so that the worker stays claimed while any
            of them lives, even when this process has been killed.
        deadline: a point of :func:`time.monotonic` in seconds, for all commands together.
        progress: is told each stage's name as it begins.
        timings: seconds of each stage so far.
    """

    worker: str
    log: Path
    lock: int
    deadline: float
    progress: Progress | None = None
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, tell the progress, and put a full disk into plain words."""
        if self.progress:
            self.progress(name)
        started = time.perf_counter()
        try:
            yield
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise self._disk_full(name) from error
            raise
        finally:
            passed = time.perf_counter() - started
            self.timings[name] = self.timings.get(name, 0.0) + passed

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], *, cwd: Path | None = None
    ) -> str:
        """Run a command that must succeed and return what it wrote."""
        code, said = self.attempt(command, environment, cwd=cwd)
        if code != 0:
            raise self.failure(command, f"exit code {code}", said)
        return said

    def attempt(
        self, command: Sequence[str], environment: Mapping[str, str], *, cwd: Path | None = None
    ) -> tuple[int, str]:
        """Run a command to its end; returns its exit code and what it wrote.

        Raises:
            HarnessError: it did not end before the deadline; it has been ended.
        """
        self.remark("$ " + " ".join(command))
        start = self.log.stat().st_size
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                env={**environment, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"},
                cwd=cwd or self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(self.lock,),
            )
        try:
            code = process.wait(timeout=max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            how = "it did not end before the deadline"
            raise self.failure(command, how, self._said(start)) from error
        finally:
            end(process)
        return code, self._said(start)

    def failure(self, command: Sequence[str], how: str, said: str) -> HarnessError:
        """The error for a command that failed in the manner ``how``."""
        if _NO_SPACE in said:
            return self._disk_full(command[0])
        tail = "\n    ".join(said.strip().splitlines()[-_TAIL_LINES:])
        return HarnessError(
            f"build worker {self.worker!r}: {_redacted(' '.join(command))}",
            f"{how}:\n    {tail}",
            f"read all of it in {self.log}, mend the worker's declaration or its lock, ask again",
        )

    def remark(self, line: str) -> None:
        """Write a line of one's own to the log, without credentials."""
        with self.log.open("a", encoding="utf-8") as log:
            log.write(_redacted(line) + "\n")

    def _disk_full(self, what: str) -> HarnessError:
        free = shutil.disk_usage(self.log.parent).free
        return HarnessError(
            f"build worker {self.worker!r}: {what}",
            f"the disk is full: {free / 1e6:.0f} MB are free around {self.log.parent.parent}",
            "remove what is not needed (Store.gc removes the workers used least recently)",
        )

    def _said(self, start: int) -> str:
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process of ours and all that it has started; one that has ended already is fine."""
    if process.poll() is not None:
        return
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()


def _redacted(text: str) -> str:
    return _CREDENTIALS.sub("//***@", text)
