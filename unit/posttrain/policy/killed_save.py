"""Ranks that are killed while they save, and a driver that goes on: killed_save.py MODEL FOLDER.

All processes are forks of this one, which has imported what takes long.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from posttrain.checkpoint.keeper import Checkpoints
from posttrain.checkpoint.resume import Start, find_start
from posttrain.checkpoint.store import CheckpointStore
from posttrain.data import Row
from posttrain.dataset import Prompts
from posttrain.policy.options import PolicyOptions
from posttrain.policy.rank import PolicyRank
from posttrain.policy.schedule import Schedule
from posttrain.sample import Sample
from posttrain.sampling import Distribution

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from posttrain.checkpoint.manifest import Saved

STEPS = 3
# Whom to kill and where: before its shard, and when everything is written but nobody knows its
# digest.
POINTS = ((1, "open", "__1_0.distcp"), (0, "open", ".metadata"))


class Ranks:
    """Two forked ranks, with the calls that a run makes."""

    def __init__(self, model: Path) -> None:
        options = PolicyOptions(model, learning_rate=1e-3, schedule=Schedule("linear", 1, 9))
        self._pids: list[int] = []
        self._connections: list[Connection] = []
        for rank in range(2):
            ours, theirs = Pipe()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for other in self._connections:
                    other.close()
                _serve(options, rank, theirs)
            theirs.close()
            self._pids.append(pid)
            self._connections.append(ours)
        self._connections[1].send(self._connections[0].recv())

    def call(self, method: str, *arguments: Any) -> list[Any]:
        for connection in self._connections:
            connection.send((method, *arguments))
        return [connection.recv() for connection in self._connections]

    def save_checkpoint(self, folder: Path) -> Saved:
        parts = self.call("save_checkpoint", folder)
        files = {name: it for part in parts for name, it in part.files.items()}
        return dataclasses.replace(parts[0], files=files)

    def load_checkpoint(self, folder: Path) -> int:
        return int(self.call("load_checkpoint", folder)[0])

    def checksum(self) -> str:
        return str(self.call("checksum")[0])

    def end(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(options: PolicyOptions, rank: int, driver: Connection) -> None:
    policy = PolicyRank(options, rank)
    if rank == 0:
        port = policy.listen()
        driver.send(port)
    else:
        port = driver.recv()
    policy.start(port)
    while True:
        method, *arguments = driver.recv()
        if method == "die":
            driver.send(_die_at(rank, *arguments))
        else:
            driver.send(getattr(policy, method)(*arguments))


def _die_at(rank: int, victim: int, at: str, name: str) -> None:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if (rank, event) == (victim, at) and Path(str(arguments[0])).name == name:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def take_steps(
    ranks: Ranks, prompts: Prompts, checkpoints: Checkpoints, point: tuple[Any, ...] | None
) -> str:
    """Take the steps that are left; dies, if at all, in the save of the second of them."""
    checkpoints.restore(ranks, prompts)  # type: ignore[arg-type]  # the same calls without Ray
    first = checkpoints.start.step + 1
    for step in range(first, STEPS + 1):
        samples = [
            Sample(row.index, (5, 6), (7 + row.index, 8), (-1.0, -1.5), 1.0, truncated=False)
            for row in prompts.take()
        ]
        advantages = [[float(step), -1.0] for _ in samples]
        old = [list(sample.logprobs) for sample in samples]
        ranks.call("train_step", samples, advantages, old, Distribution())
        if point and step == first + 1:
            ranks.call("die", *point)
        checkpoints.save(step, ranks.checksum(), ranks, prompts)  # type: ignore[arg-type]
    return ranks.checksum()


def run(model: Path, store: CheckpointStore, point: tuple[Any, ...] | None) -> str:
    """One run, which goes on where the former one got to; what it ends with."""
    start = find_start(store, "auto", {}) if store.steps() else Start()
    checkpoints = Checkpoints(store, start, every=1, keep=1, last_step=STEPS)
    prompts = Prompts([Row(index, {}) for index in range(3)], 2, shuffle=True)
    with store.held():
        ranks = Ranks(model)
        try:
            return take_steps(ranks, prompts, checkpoints, point)
        except (EOFError, ConnectionError):
            return "killed"
        finally:
            ranks.end()


def main(model: Path, folder: Path) -> None:
    # The first step of a process imports for seconds; its forks need not.
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.AdamW([weight]).step()
    straight = CheckpointStore(folder / "straight")
    told = ["straight " + run(model, straight, None)]
    for number, point in enumerate(POINTS):
        store = CheckpointStore(folder / f"killed-{number}")
        first = run(model, store, point)
        there = find_start(store, "auto", {})
        hidden = [path.name[:9] for path in store.folder.iterdir() if path.name != ".lock"]
        told.append(f"{point[1]} {first} {there.step} {len(there.damaged)} {sorted(hidden)}")
        told.append("resumed " + run(model, store, None))
    sys.stdout.write("\n".join(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
