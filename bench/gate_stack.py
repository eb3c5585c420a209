"""What bench_gate.py runs: a stub engine, a gate and plain Gym servers in front of it, a store."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import psutil

from bench.capture_stores import ROOT, opened
from bench.gate_engine import Taken
from posttrain.capture.gate.configure import CapturedServers
from posttrain.capture.gate.servers import Gate
from posttrain.environment.configure import HOST, GymConfig
from posttrain.environment.conversations import ConversationServers
from posttrain.environment.process import Child
from posttrain.environment.servers import GymServers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.capture_stores import Kind, Opened

TURNS = 2
START_S = 300.0
CALL_S = 30.0
MIB = 1 << 20
_STOP_S = 2.0
_POLL_S = 0.1


@dataclass(frozen=True)
class StubEngine:
    """The process of ``gate_engine.py``.

    Attributes:
        child: itself.
        port: where it listens.
    """

    child: Child
    port: int

    @property
    def url(self) -> str:
        """Its base address for OpenAI clients."""
        return f"http://{HOST}:{self.port}/v1"

    def decode(self, seconds: float) -> None:
        """Have each call take so long from now on."""
        self._post("decode", f"{seconds}")

    def taken(self) -> Taken:
        """What it did since it was asked last."""
        return Taken(**self._post("taken", ""))

    def wait_ready(self) -> None:
        """Wait until it answers.

        Raises:
            RuntimeError: it ended, or takes too long.
        """
        deadline = time.monotonic() + START_S
        while (death := self.child.death()) is None and time.monotonic() < deadline:
            try:
                self.taken()
            except OSError:
                time.sleep(_POLL_S)
            else:
                return
        raise RuntimeError(f"no engine: {death or 'late'}; its log:{self.child.last_lines()}")

    def _post(self, route: str, body: str) -> Any:
        request = Request(f"http://{HOST}:{self.port}/{route}", body.encode(), method="POST")
        with urlopen(request, timeout=CALL_S) as answer:  # noqa: S310
            return json.loads(answer.read())


@dataclass(frozen=True)
class Stack:
    """Everything, running.

    Attributes:
        engine: in front of which both sets of servers are.
        gate: Gym's servers with capture.
        plain: the same servers without it.
        store: what the engine stages into, as the trainer reads it.
    """

    engine: StubEngine
    gate: Gate
    plain: GymServers
    store: Opened

    @property
    def pids(self) -> dict[str, int]:
        """Every process; the gate's changes when it is recycled."""
        return {
            "trainer": os.getpid(),
            "gate": self.gate.pid,
            "agents": self.gate.pids["gym-servers"],
            "plain Gym": self.plain.pid,
            "engine": self.engine.child.pid,
            **self.store.pids(),
        }

    def ledgers(self) -> int:
        """Files of the gate's ledger."""
        return sum(1 for _ in self.gate.folder.iterdir())


@contextmanager
def stack(gym: Path, kind: Kind, generated: int, folder: Path) -> Iterator[Stack]:
    """Start everything; end it on leaving.

    Args:
        gym: the `gym` worker's interpreter.
        kind: of the store.
        generated: tokens of each answer of the engine.
        folder: empty; takes logs, the ledger, and what is staged in files.
    """
    with ExitStack() as running:
        store = running.enter_context(opened(kind, folder))
        engine = _engine(store, generated, folder)
        running.callback(engine.child.stop, _STOP_S)
        servers = ConversationServers(GymConfig(model="stub", engine_urls=(engine.url,)))
        captured = CapturedServers(servers, folder / "capture", TURNS)
        gate = running.enter_context(Gate(gym, captured, folder / "gate", START_S))
        plain = running.enter_context(GymServers(gym, servers, folder / "plain", START_S))
        engine.wait_ready()
        gate.wait_ready()
        plain.wait_ready()
        yield Stack(engine, gate, plain, store)


def _engine(store: Opened, generated: int, folder: Path) -> StubEngine:
    command = [
        *(sys.executable, "-m", "bench.gate_engine"),
        *("--capture", json.dumps(asdict(store.settings)), "--generated", str(generated)),
        *(("--ray", store.cluster) if store.cluster else ()),
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.bind((HOST, 0))
        child = Child(
            [*command, "--socket", str(bound.fileno())],
            environment=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            folder=folder,
            log=folder / "engine.log",
            descriptors=[bound.fileno()],
        )
        return StubEngine(child, bound.getsockname()[1])


def resident_mb(pid: int) -> float:
    """MiB of a process that are in memory."""
    return float(psutil.Process(pid).memory_info().rss) / MIB


def processor_s(pid: int) -> float:
    """Seconds of processors that a process took so far; children are not counted."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
