"""A child process with a session of its own: started with a log, ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_TAIL_BYTES = 16_384
_TAIL_LINES = 15


class Child:
    """A running child process.

    The child leads its own process group, so that a Ctrl-C at the terminal reaches the parent
    alone, and its standard input is a pipe that ends when the parent does, however it ends.

    Args:
        command: program and arguments.
        environment: the child's whole environment.
        folder: its working directory.
        log: the file that takes its output, made anew.
        descriptors: file descriptors that it inherits under the same numbers.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(descriptors),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is its process group's id too."""
        return self._process.pid

    def death(self) -> str | None:
        """How the child ended, in words; ``None`` while it runs."""
        if self._process.returncode is None:
            ended = self._peek()
            if ended is None:
                return None
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        else:
            code = self._process.returncode
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def last_lines(self) -> str:
        """The end of the log, indented for the middle of an error."""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "".join(f"\n    | {line}" for line in lines) or " (its log is empty)"

    def wait(self) -> None:
        """Wait until the child has ended, without reaping it."""
        with suppress(ChildProcessError):  # somebody was quicker
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        """End the whole group by SIGKILL, and do not wait."""
        if self._process.returncode is None:
            self._signal_group(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the whole group to end, by SIGTERM, and do not wait: for several at once."""
        if self._process.returncode is None:
            self._signal_group(signal.SIGTERM)

    def stop(self, patience_s: float) -> None:
        """End the whole group: SIGTERM, ``patience_s`` seconds for the leader, SIGKILL.

        Returns when the leader is gone; a second call does nothing.
        """
        if self._process.returncode is None:
            self._signal_group(signal.SIGTERM)
            deadline = time.monotonic() + patience_s
            while self._peek() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            self._signal_group(signal.SIGKILL)
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _peek(self) -> os.waitid_result | None:
        """How the leader ended, if it did, without reaping it.

        Only :meth:`stop` reaps: until then the group's id cannot go to anybody else, and what the
        leader left behind in the group can be ended by that id.
        """
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
