"""Start: an engine of one's own, with its own folders and socket, that ends with the block."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READY_S = 60.0
_END_S = 30.0
_POLL_S = 0.1
_SYSTEM = "/usr/sbin"

# Why an item in a container has none, whatever runs on the machine.
CONTAINED = "no container engine: a container reaches none"


def no_engine() -> str:
    """Why there is no engine and none may be started; empty where there is one, or may be."""
    try:
        Engine().close()
    except HarnessError:
        return _cannot_start()
    return ""


def _cannot_start() -> str:
    if not sys.platform.startswith("linux"):
        return f"no engine, and none can be started on {sys.platform}"
    if os.geteuid() != 0:
        return "no engine, and only root can start one"
    if _daemon() is None:
        return "no engine, and no dockerd to start (apt-get install docker.io)"
    return ""


def _daemon() -> str | None:
    return shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:{_SYSTEM}")


@contextmanager
def own_engine(folder: Path) -> Iterator[str]:
    """Start an engine that keeps everything below ``folder``; gives its address.

    It has no network for containers, and changes nothing of the machine's. An engine without a
    bridge removes the usual one, though: beside another engine it gets a network of its own.

    Raises:
        HarnessError: it may not be started, or does not answer; with the end of its log.
    """
    problem, program = _cannot_start(), _daemon()
    if problem or program is None:
        raise HarnessError("an engine of one's own", problem, "start one, or name one: DOCKER_HOST")
    folder.mkdir(parents=True, exist_ok=True)
    address = f"unix://{folder}/docker.sock"
    # However this process ends, its engine does not outlive it.
    tied = ["setpriv", "--pdeathsig", "TERM"]
    beside = ["unshare", "--net"] if _usual_engine() else []
    command = [*tied, *beside, program, "--host", address, "--data-root", str(folder / "data")]
    command += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    command += ["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"]
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    try:
        _wait(process, address, log)
        yield address
    finally:
        _end(process)


def _usual_engine() -> bool:
    """Whether the machine's usual engine runs."""
    try:
        Engine({}).close()
    except HarnessError:
        return False
    return True


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            Engine({"DOCKER_HOST": address}).close()
        except HarnessError:
            if process.poll() is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                continue
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-1500:]
            raise HarnessError(
                f"an engine at {address}",
                f"it does not answer; exit code {process.poll()}; it said:\n    {said}",
                "start one by hand, and name it in DOCKER_HOST",
            ) from None
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
