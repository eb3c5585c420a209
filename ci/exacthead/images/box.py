"""Box: one container, from its creation to its removal, with what goes in and comes out of it.

Its standard input is a dead man's pipe: the engine closes it when this process is gone, however
that went, and who reads it inside ends.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from exacthead.errors import HarnessError
from exacthead.images.engine import OURS, Ended
from exacthead.images.streams import STDOUT, Frames
from exacthead.images.witness import heard, watched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from exacthead.images.engine import Engine
    from exacthead.images.owner import Owner

# Whoever runs the harness as root still runs no item as root.
_NOBODY = 10001
_MIB = 1 << 20
_GB = 10**9
_CHUNK = 1 << 16
_MOST_SAID = 1 << 16
_END_S = 30.0
_KILLED = 137


@dataclass(frozen=True)
class Limits:
    """What a container may use. Memory in GB of 10^9 bytes; ``pids`` counts threads too."""

    cpus: float
    memory_gb: float
    pids: int
    accelerators: int = 0


@dataclass(frozen=True)
class BoxSpec:
    """What a container is.

    Attributes:
        image: the id of its image; a name would be whatever it means by then.
        command: program and arguments.
        owner: whose it is.
        limits: what it may use.
        folder: the one folder of this machine that it can write to, and where it sees it.
        shown: a folder of this machine that it can read, and where it sees it.
        environment: its variables, and no other.
        cwd: the folder that it starts in.
        network: whether it reaches one.
    """

    image: str
    command: tuple[str, ...]
    owner: Owner
    limits: Limits
    folder: tuple[Path, str] | None = None
    shown: tuple[Path, str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    network: bool = False

    def body(self) -> dict[str, Any]:
        """The container as the engine's API wants it, without its image."""
        user, group = own_ids()
        memory = int(self.limits.memory_gb * _GB)
        # Its temporary files and its shared memory are memory; each may take half of it.
        half = memory // 2
        mounts = [
            {"Type": "bind", "Source": str(here), "Target": there, "ReadOnly": read_only}
            for read_only, mount in ((False, self.folder), (True, self.shown))
            if mount
            for here, there in [mount]
        ]
        return {
            "Cmd": list(watched(self.command)),
            "Entrypoint": [],
            "User": f"{user}:{group}",
            "WorkingDir": self.cwd,
            "Env": [f"{name}={value}" for name, value in sorted(self.environment.items())],
            "Labels": {OURS: self.owner.label()},
            "OpenStdin": True,
            "StdinOnce": True,
            "Tty": False,
            "NetworkDisabled": not self.network,
            "HostConfig": {
                "NetworkMode": "bridge" if self.network else "none",
                "ReadonlyRootfs": True,
                "Init": True,
                "Privileged": False,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "NanoCpus": int(self.limits.cpus * 1e9),
                "Memory": memory,
                "MemorySwap": memory,
                "PidsLimit": self.limits.pids,
                "ShmSize": half,
                "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={half}"},  # noqa: S108
                "Mounts": mounts,
                "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
                "LogConfig": {"Type": "none"},
                "RestartPolicy": {"Name": "no"},
                "DeviceRequests": _devices(self.limits.accelerators),
            },
        }


def own_ids() -> tuple[int, int]:
    """The user and group that items run as: the caller's own, unless that is root."""
    user, group = os.getuid(), os.getgid()
    return (user, group) if user else (_NOBODY, _NOBODY)


def give(folder: Path, user: int, group: int) -> None:
    """Give a folder and all that is in it to a user; links are not followed."""
    if os.getuid() != 0:
        return
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(parent, name), user, group, follow_symlinks=False)  # noqa: PTH118


class Box:
    """A container that lives as long as the block.

    Attributes:
        stdin: what it reads; closing it is the word to end.
        stdout: what it writes, byte for byte.
    """

    def __init__(self, engine: Engine, spec: BoxSpec, deadline_s: float) -> None:
        self._engine, self._spec, self._deadline_s = engine, spec, deadline_s
        self._errors = bytearray()
        self._broken = ""

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.id = self._engine.create(self._spec.image, **self._spec.body())
            undo.callback(self._engine.remove, self.id)
            self._check_image()
            self._socket, self._hang_up = self._engine.attach(self.id)
            undo.callback(self._socket.close)
            undo.callback(self._hang_up)
            self._socket.settimeout(None)
            self._engine.start(self.id)
            reading, self._writing = os.pipe()
            self.stdout = os.fdopen(reading, "rb", buffering=0)
            self.stdin = _Input(self._socket)
            self._pump = threading.Thread(target=self._follow, name="box", daemon=True)
            self._timer = threading.Timer(self._deadline_s, self._engine.kill, (self.id,))
            self._timer.daemon = True
            self._pump.start()
            self._timer.start()
            undo.pop_all()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self.stdin.close()
        self._engine.remove(self.id)
        self.stdout.close()  # before the wait: who writes to a full pipe would never end
        self._pump.join(_END_S)
        self._hang_up()
        self._socket.close()

    def _check_image(self) -> None:
        made_from = self._engine.inspect(self.id)["Image"]
        if made_from != self._spec.image:
            raise HarnessError(
                f"a container of image {self._spec.image}",
                f"the engine made one of {made_from}",
                "look at what stands between here and the engine",
            )

    @property
    def said(self) -> str:
        """The end of what it wrote to its standard error."""
        return heard(bytes(self._errors))[0].decode(errors="replace").strip()

    def end(self) -> Ended:
        """How it ended; waits for that."""
        self._pump.join(self._deadline_s)
        ended = self._engine.wait(self.id, _END_S)
        hungry = ended.code == _KILLED and heard(bytes(self._errors))[1] > 0
        ended = replace(ended, out_of_memory=ended.out_of_memory or hungry)
        return replace(ended, code=None, error=self._broken) if self._broken else ended

    def _follow(self) -> None:
        """Take what the container writes apart, until its end."""
        frames = Frames()
        try:
            while data := self._socket.recv(_CHUNK):
                for stream, payload in frames.feed(data):
                    if stream == STDOUT:
                        _write(self._writing, payload)
                    else:
                        self._errors += payload
                        del self._errors[:-_MOST_SAID]
            if not frames.whole:
                self._broken = "its output broke off in the middle of a frame"
        except (OSError, HarnessError) as error:
            self._broken = f"its output broke off: {error}"
        finally:
            os.close(self._writing)


def run_plain(
    engine: Engine, spec: BoxSpec, *, deadline_s: float = 120.0, stdin: bytes = b""
) -> tuple[bytes, str]:
    """Run a command to its end; returns what it wrote to its two outputs.

    Raises:
        HarnessError: it ended in any way but with exit code 0, or its end was not seen.
    """
    with Box(engine, spec, deadline_s) as box:
        box.stdin.write(stdin)
        box.stdin.close()
        output = box.stdout.read()
        ended = box.end()
        if ended.code != 0 or ended.error:
            raise HarnessError(
                f"`{' '.join(spec.command)}` in image {spec.image[:19]}",
                f"{how_it_ended(ended)}; it said: {box.said[-500:] or 'nothing'}",
                "run it by hand in a container of that image",
            )
        return output, box.said


def how_it_ended(ended: Ended) -> str:
    """How a container ended, in words."""
    if ended.out_of_memory:
        words = "its memory limit was reached, and the kernel ended it"
    elif ended.code is None:
        words = "its end was not seen: the engine named no exit code"
    elif ended.code == _KILLED:
        words = "it was ended by SIGKILL, and not for lack of memory"
    else:
        words = f"exit code {ended.code}"
    return f"{words} ({ended.error})" if ended.error else words


class _Input:
    """The writing side of a container's standard input."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._open = True

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                return  # the container has ended, and the connection with it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _devices(accelerators: int) -> list[dict[str, Any]]:
    if not accelerators:
        return []
    return [{"Driver": "nvidia", "Count": accelerators, "Capabilities": [["gpu"]]}]
