"""Gym's servers as the trainer sees them: start, wait until ready, agent's address, stop."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from posttrain.environment.configure import AGENT, HOST
from posttrain.environment.fellows import Fellows
from posttrain.environment.process import Child
from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_ROOT = Path(__file__).resolve().parents[2]
_HTTP_OK = 200
_POLL_S = 0.05
# Uvicorn's half a second for requests, then the interpreter's own end; the whole stop has 3 s.
_STOP_PATIENCE_S = 2.0
# Settings of another run, of telemetry or of a Ray cluster have no business in the servers.
_DROPPED = ("NEMO_GYM_", "NEMO_LENS_", "IS_NEMO_GYM_", "OTEL_", "RAY_")


class Configured(Protocol):
    """A set of servers, as far as starting them needs to know it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every server that is to listen."""

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        """Gym's own global configuration, given each server's port."""


class GymServers:
    """Gym's servers of one environment, in one process of the ``gym`` worker or in several.

    Args:
        python: the ``gym`` worker's interpreter.
        config: the environment to serve.
        run_dir: where ``gym-config.json`` and ``gym-servers.log`` go; also the working directory.
        deadline_s: seconds from the start until all servers must be ready.
        ports: a port for each server's name; a server that has none gets a free one.
    """

    def __init__(
        self,
        python: Path,
        config: Configured,
        run_dir: Path,
        deadline_s: float,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        # The process starts in another folder. Not resolved: an environment is where its link is.
        self._python = python.absolute() if len(python.parts) > 1 else python
        self._config = config
        self._run_dir = run_dir
        self._deadline_s = deadline_s
        self._asked_ports = dict(ports or {})
        self._starts = 0
        self._restarting = False
        self._started_at = 0.0
        self._children: list[Child] = []
        self._fellows = Fellows(())
        self.ports: dict[str, int] = {}

    @property
    def agent_url(self) -> str:
        """The agent's base address."""
        return self.url(AGENT)

    def url(self, name: str) -> str:
        """The base address of the server ``name``."""
        return f"http://{HOST}:{self.ports[name]}"

    @property
    def pid(self) -> int:
        """The process that serves, the first of several; also its process group."""
        return self._running()[0].pid

    @property
    def pids(self) -> dict[str, int]:
        """All processes, by the names of their logs; each leads a process group."""
        return {
            name: child.pid for name, child in zip(self._processes, self._running(), strict=True)
        }

    @property
    def resident_mb(self) -> float:
        """Memory of the (first) process that is in RAM, in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)

    def start(self) -> None:
        """Bind the ports and start the processes; does not wait for them.

        Raises:
            WorkerError: a port is in use, or the interpreter cannot be run.
        """
        if self._children:
            msg = "these servers were started before"
            raise RuntimeError(msg)
        self._run_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            sockets = {name: held.enter_context(self._bind(name)) for name in self._config.names}
            self.ports = {name: bound.getsockname()[1] for name, bound in sockets.items()}
            configuration = json.dumps(self._config.configuration(self.ports))
            (self._run_dir / "gym-config.json").write_text(configuration + "\n", encoding="utf-8")
            self._started_at = time.monotonic()
            self._starts += 1
            try:
                for process, names in self._processes.items():
                    mine = {name: sockets[name].fileno() for name in names}
                    self._children.append(self._process(process, mine, configuration))
                self._fellows = Fellows(self._children)
            except OSError as error:
                self.stop()
                self._children = []
                raise WorkerError(
                    f"start Gym's servers with {self._python}",
                    str(error),
                    "give the gym worker's interpreter; `nox -s workers` builds it",
                ) from error

    def _process(self, name: str, sockets: Mapping[str, int], configuration: str) -> Child:
        arguments = [f"{server}={number}" for server, number in sockets.items()]
        log = name if self._starts == 1 else f"{name}-{self._starts}"
        return Child(
            [str(self._python), "-P", "-m", "posttrain.environment.serve", *arguments],
            environment=self._environment(configuration),
            folder=self._run_dir,
            log=self._run_dir / f"{log}.log",
            descriptors=[*sockets.values()],
        )

    def restart(self) -> None:
        """End the processes and start others on the same ports; does not wait for them.

        What the servers keep in memory is gone, what they keep in files is not. Each process has a
        log of its own. Whoever checks meanwhile, in another thread, finds nothing wrong.

        Raises:
            WorkerError: as :meth:`start`.
        """
        self._restarting = True
        try:
            self.stop()
            self._asked_ports = dict(self.ports)
            self._children = []
            self.start()
        finally:
            self._restarting = False

    def wait_ready(self) -> None:
        """Wait until each server answers its readiness route.

        Raises:
            WorkerError: the process died, or the deadline passed; the servers are stopped then.
        """
        waiting = list(self._config.names)
        try:
            while waiting:
                self.check()
                self._check_deadline(waiting)
                waiting = [name for name in waiting if not _ready(self.ports[name])]
                time.sleep(_POLL_S if waiting else 0)
        except WorkerError:
            self.stop()
            raise

    def check(self) -> None:
        """Raise when a process of the servers has died; the others are ended then.

        Raises:
            WorkerError: with how it ended and the last lines of its log.
        """
        if self._restarting:
            return
        first = self._fellows.first
        for child in self._running() if first is None else [first]:
            death = child.death()
            if death is not None:
                raise WorkerError(
                    f"Gym's servers {', '.join(self._config.names)} running",
                    f"{death}; the log ends:{child.last_lines()}",
                    f"read {child.log}",
                )

    def silent(self, patience_s: float) -> list[str]:
        """The servers that answer no readiness check within ``patience_s`` seconds each."""
        return [name for name in self._config.names if not _ready(self.ports[name], patience_s)]

    def stop(self) -> None:
        """End the servers and everything they started, within 3 seconds; may be called again."""
        self._fellows.leave()
        for child in self._children:
            child.terminate()
        end = time.monotonic() + _STOP_PATIENCE_S
        for child in self._children:
            child.stop(max(0.0, end - time.monotonic()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _processes(self) -> dict[str, tuple[str, ...]]:
        """The servers of each process, by the name of its log."""
        return {"gym-servers": self._config.names}

    def _running(self) -> list[Child]:
        if not self._children:
            msg = "these servers were not started"
            raise RuntimeError(msg)
        return self._children

    def _check_deadline(self, waiting: list[str]) -> None:
        if time.monotonic() - self._started_at > self._deadline_s:
            ends = "".join(child.last_lines() for child in self._running())
            logs = " and ".join(str(child.log) for child in self._running())
            raise WorkerError(
                f"Gym's servers ready within {self._deadline_s:g} s",
                f"no readiness from {', '.join(waiting)}; the log ends:{ends}",
                f"read {logs}; a slow machine needs a longer deadline",
            )

    def _bind(self, name: str) -> socket.socket:
        port = self._asked_ports.get(name, 0)
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Connections of an earlier server that only wait for their end do not hold the port.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            bound.close()
            raise WorkerError(
                f"Gym's server {name} on port {port} of {HOST}",
                error.strerror or str(error),
                f"end what uses port {port}, or leave the port out to get a free one",
            ) from error
        return bound

    def _environment(self, configuration: str) -> dict[str, str]:
        """The whole environment of the process."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_DROPPED)}
        return kept | {
            "NEMO_GYM_CONFIG_DICT": configuration,
            "NEMO_GYM_OTEL_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [kept.get("PYTHONPATH")])]),
            "PYTHONNOUSERSITE": "1",
            "PYTHONFAULTHANDLER": "1",
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self._run_dir / "huggingface"),
            # Spinning OpenMP threads of many processes starve each other on few cores.
            "OMP_NUM_THREADS": "1",
        }


def _ready(port: int, patience_s: float = 1.0) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=patience_s)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == _HTTP_OK
    except OSError:
        return False
    finally:
        connection.close()
