"""Starting a supervisor on this machine, and talking to one wherever it runs."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import exacthead
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exacthead.runs.echo import Echo
    from exacthead.runs.inside import Running
    from exacthead.runs.order import Order
    from exacthead.runs.ports import Ports

_POLL_S = 0.1
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from exacthead.runs.supervisor import main; main()"
)


@dataclass(frozen=True)
class Here:
    """A supervisor on this machine."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @property
    def stdin(self) -> IO[bytes] | None:
        """It takes the order, and the wish to stop."""
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """It tells the facts."""
        return self.process.stdout

    def lost(self) -> str:
        """How it ended that told nothing."""
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip()[-500:]
        return f"exit code {code}{'; it said: ' + said if said else ''}"


@contextmanager
def start_here(ports: Ports) -> Iterator[Here]:
    """Start a supervisor that holds the claim on the ports; its end is waited for."""
    source = str(Path(exacthead.__file__).parent.parent)
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _BOOT, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            # The claim on the ports outlives a killed harness until the supervisor has ended all.
            pass_fds=(ports.claim.fileno(),),
            start_new_session=True,
        ) as supervisor,
    ):
        yield Here(supervisor, errors)


def talk(supervisor: Running, order: Order, echo: Echo, stop: Callable[[], bool]) -> bytes:
    """Give the order, follow the log, pass on a wish to stop; returns the report.

    When this is left by an exception the order's pipe closes, which ends the item; the caller's
    ``with`` waits for that.
    """
    if supervisor.stdin is None or supervisor.stdout is None:
        raise HarnessError(
            "a supervisor", "no pipes to it", "report this as a fault of the harness"
        )
    with supervisor.stdin as control:
        report, told = b"", False
        try:
            control.write(json.dumps(asdict(order)).encode() + b"\n")
            control.flush()
            while True:
                if not told and stop():
                    told = True
                    control.write(b"interrupt\n")
                    control.flush()
                ready = select.select([supervisor.stdout], [], [], _POLL_S)[0]
                echo.follow()
                if ready:
                    data = os.read(supervisor.stdout.fileno(), 1 << 16)
                    if not data:
                        break
                    report += data
        except ConnectionError:
            report = b""  # the supervisor is gone, or its container
        echo.finish()
        return report
