"""A TransferQueue plane between processes: what one puts, every other one reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import ray

from posttrain.dataplane import DuplicateKeyError, EvictedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.dataplane.transfer_queue import TransferQueuePlane

PROGRAM = Path(__file__).with_name("plane_process.py")
FIELDS = ("tokens", "logprobs", "blob")
END_S = 120
GENERATION = "EXACTHEAD_PYTHON_GENERATION"


@pytest.fixture
def plane(queue: TransferQueuePlane) -> TransferQueuePlane:
    return queue


@pytest.fixture
def partition(fresh: Callable[..., str]) -> str:
    return fresh(FIELDS)


@pytest.fixture
def start(cluster: str, plane: TransferQueuePlane) -> Callable[..., subprocess.Popen[str]]:
    """Start a process that joins the plane and does one thing."""

    def begin(
        *arguments: str, python: str = sys.executable, address: str = cluster
    ) -> subprocess.Popen[str]:
        handle = json.dumps(plane.handle())
        return subprocess.Popen(
            [python, str(PROGRAM), address, handle, *arguments], stdout=subprocess.PIPE, text=True
        )

    return begin


def answer(process: subprocess.Popen[str]) -> Any:
    said, _ = process.communicate(timeout=END_S)
    assert process.returncode == 0
    return json.loads(said)


def test_a_row_is_readable_elsewhere_on_return_and_outlives_its_writer(
    start: Callable[..., subprocess.Popen[str]], partition: str
) -> None:
    ids = [f"r{number}" for number in range(40)]
    writer = start("put_and_die", partition, *ids)
    writer.communicate(timeout=END_S)
    assert writer.returncode == -signal.SIGKILL
    assert answer(start("same", partition, *reversed(ids))) is True


def test_processes_claim_every_row_once(
    start: Callable[..., subprocess.Popen[str]], plane: TransferQueuePlane, partition: str
) -> None:
    ids = [f"r{number}" for number in range(100)]
    plane.put(partition, {key: {"tokens": b""} for key in ids})
    readers = [start("claim", partition) for _ in range(3)]
    claimed = [answer(reader) for reader in readers]
    assert sorted(key for each in claimed for key in each) == sorted(ids)
    for each in claimed:
        assert each == sorted(each, key=ids.index)


def test_an_id_belongs_to_the_process_that_put_it_and_a_cleared_one_to_nobody(
    start: Callable[..., subprocess.Popen[str]], plane: TransferQueuePlane, partition: str
) -> None:
    assert answer(start("put", partition, "a", "b")) is None
    with pytest.raises(DuplicateKeyError):
        plane.put(partition, {"a": {"blob": b""}})
    assert answer(start("clear", partition, "a")) is None
    with pytest.raises(EvictedError):
        plane.get(partition, ["a"], ["blob"])
    assert answer(start("same", partition, "a"))[0] == "EvictedError"
    assert answer(start("same", partition, "b")) is True


def test_a_process_outside_the_cluster_is_told(
    start: Callable[..., subprocess.Popen[str]], partition: str
) -> None:
    name, said = answer(start("same", partition, address="none"))
    assert name == "HandleError"
    assert "Ray is not initialised in this process" in said
    name, said = answer(start("same", partition, address="local"))
    assert name == "HandleError"
    assert "this process is in the Ray cluster" in said


def test_an_actor_of_another_worker_environment_reads_and_writes(
    plane: TransferQueuePlane, partition: str
) -> None:
    if GENERATION not in os.environ:
        pytest.skip(f"{GENERATION} names no second worker")
    python = os.environ[GENERATION]
    ids = [f"r{number}" for number in range(5)]
    handle = plane.handle()

    class Elsewhere:
        def put(self) -> str:
            sys.path.insert(0, str(PROGRAM.parent))
            from plane_process import rows

            from posttrain.dataplane import connect

            joined = connect(handle)
            joined.put(partition, rows(ids))
            joined.close()
            return sys.executable

    actor = ray.remote(num_cpus=0)(Elsewhere)
    actor = actor.options(runtime_env={"py_executable": python}).remote()
    assert Path(ray.get(actor.put.remote(), timeout=END_S)).parent == Path(python).parent
    sys.path.insert(0, str(PROGRAM.parent))
    from plane_process import same

    assert same(plane, partition, ids)
    ray.kill(actor)
