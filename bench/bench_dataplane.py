"""The data plane: what the guarantees cost over TransferQueue's own client, and over memory.

    PYTHONPATH=.:ci OMP_NUM_THREADS=1 POLICY_PYTHON bench/bench_dataplane.py --rounds 7

Rows of 1,000 tokens (int64 ids, float32 mask and log-probs: 16 KB) are put, read and cleared by
three sides in turns, in another order each round: the plane in memory, the TransferQueue plane, and
TransferQueue's own asynchronous client on the same storage units (insert, get by its metadata,
clear; no ids, no checks, no deadline). ``batch`` is one call with all rows, ``single`` a call for
each row. What is printed is the median over the rounds in milliseconds a call, the 99th percentile
of all calls, and the median of the rounds' ratios to TransferQueue's own client.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import ray
import torch
from tensordict import TensorDict

from posttrain.dataplane import DataPlane, MemoryPlane
from posttrain.dataplane.transfer_queue import TransferQueuePlane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posttrain.dataplane import Row, Value

TOKENS = 1000
FIELDS = ("token_ids", "token_mask", "logprobs")
PARTITION = "bench"
OWN = "TransferQueue's client"
STEPS = ("put", "get", "clear")

Times = dict[str, list[float]]


class Side(Protocol):
    """One way to put, read and clear rows; a step's time is all that it takes for the caller."""

    def put(self, rows: Mapping[str, Row]) -> Any:
        """Store rows; return what finds them."""

    def get(self, found: Any) -> Sequence[Mapping[str, Value]]:
        """Read rows."""

    def clear(self, found: Any) -> None:
        """Free rows."""


class PlaneSide:
    """A data plane."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        plane.register(PARTITION, FIELDS)

    def put(self, rows: Mapping[str, Row]) -> list[str]:
        """Store rows; return their ids."""
        self._plane.put(PARTITION, rows)
        return list(rows)

    def get(self, found: list[str]) -> list[dict[str, Value]]:
        """Read rows."""
        return self._plane.get(PARTITION, found, FIELDS)

    def clear(self, found: list[str]) -> None:
        """Free rows."""
        self._plane.clear(PARTITION, found)


class OwnSide:
    """TransferQueue's client, on the plane's storage units and event loop."""

    def __init__(self, plane: TransferQueuePlane) -> None:
        self._loop = plane._client  # noqa: SLF001 - the same event loop
        self._client = self._loop._client  # noqa: SLF001

    def _run(self, work: Any) -> Any:
        return self._loop.submit(work).result()

    def put(self, rows: Mapping[str, Row]) -> Any:
        """Store rows; return TransferQueue's metadata."""
        # Nested also where all rows have one length: a unit then keeps each in a buffer of its own.
        columns = {
            field: torch.nested.as_nested_tensor(
                [torch.from_numpy(np.asarray(row[field])) for row in rows.values()],
                layout=torch.jagged,
            )
            for field in FIELDS
        }
        tensors = TensorDict(columns, batch_size=[len(rows)])
        return self._run(self._client.async_put(tensors, partition_id=f"{PARTITION}-own"))

    def get(self, found: Any) -> list[dict[str, Value]]:
        """Read rows."""
        read = self._run(self._client.async_get_data(found))
        columns = {field: [each.numpy() for each in read[field].unbind()] for field in FIELDS}
        return [{field: columns[field][row] for field in FIELDS} for row in range(found.size)]

    def clear(self, found: Any) -> None:
        """Free rows."""
        self._run(self._client.async_clear_samples(found))


def rows(numbers: range) -> dict[str, Row]:
    """Make rows of a fixed content."""
    ids = np.arange(TOKENS, dtype=np.int64)
    values = np.linspace(-3, 0, TOKENS, dtype=np.float32)
    mask = np.ones(TOKENS, np.float32)
    return {
        f"rollout-{number}:call-0": {
            "token_ids": ids + number,
            "token_mask": mask,
            "logprobs": values,
        }
        for number in numbers
    }


def timed(call: Callable[[], Any], into: list[float]) -> Any:
    """Call, and note the milliseconds."""
    started = time.perf_counter()
    result = call()
    into.append((time.perf_counter() - started) * 1000)
    return result


def turn(side: Side, batches: Sequence[Mapping[str, Row]], times: Times) -> None:
    """Put, read and clear batches; each step for all batches before the next."""
    found = [timed(lambda: side.put(batch), times["put"]) for batch in batches]  # noqa: B023
    for one, batch in zip(found, batches, strict=True):
        read = timed(lambda: side.get(one), times["get"])  # noqa: B023
        first, *_ = batch.values()
        assert np.array_equal(read[0]["token_ids"], first["token_ids"])
        assert len(read) == len(batch)
    for one in found:
        timed(lambda: side.clear(one), times["clear"])  # noqa: B023


def measure(
    sides: Mapping[str, Side], rounds: int, calls: int, size: int, numbers: count[int]
) -> dict[str, list[Times]]:
    """Let the sides take turns; return each round's times of each side."""
    names = list(sides)
    every: dict[str, list[Times]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            firsts = [next(numbers) * size for _ in range(calls)]
            batches = [rows(range(first, first + size)) for first in firsts]
            times: Times = {step: [] for step in STEPS}
            turn(sides[name], batches, times)
            if number:  # the first round warms up
                every[name].append(times)
    return every


def report(title: str, every: Mapping[str, list[Times]]) -> None:
    """Print a table of one kind of calls."""
    print(f"\n{title}")
    print(f"{'':24}{'step':8}{'ms a call':>12}{'p99':>10}{'ratio':>8}")
    for name, measured in every.items():
        for step in STEPS:
            medians = [statistics.median(times[step]) for times in measured]
            own = [statistics.median(times[step]) for times in every[OWN]]
            ratios = [mine / theirs for mine, theirs in zip(medians, own, strict=True)]
            calls = sorted(value for times in measured for value in times[step])
            late = calls[min(len(calls) - 1, int(len(calls) * 0.99))]
            print(
                f"{name:24}{step:8}{statistics.median(medians):12.2f}{late:10.2f}"
                f"{statistics.median(ratios):8.2f}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=100, help="single calls a round")
    arguments = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    plane = TransferQueuePlane.start(deadline_s=60)
    sides: dict[str, Side] = {
        OWN: OwnSide(plane),
        "plane": PlaneSide(plane),
        "memory": PlaneSide(MemoryPlane()),
    }
    numbers = count()
    batch = measure(sides, arguments.rounds, 1, arguments.rows, numbers)
    report(f"batch: {arguments.rows} rows of {TOKENS} tokens a call", batch)
    numbers = count(next(numbers) * arguments.rows)
    single = measure(sides, arguments.rounds, arguments.calls, 1, numbers)
    report(f"single: 1 row of {TOKENS} tokens a call", single)
    for name, served in plane.served().items():
        print(f"{name}: {served}")
    plane.close()
    ray.shutdown()


if __name__ == "__main__":
    main()
