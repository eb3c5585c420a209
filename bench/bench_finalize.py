"""The finalizer: what a verified row costs over Gym's own verification of the same records.

    PYTHONPATH=. OMP_NUM_THREADS=1 POLICY_PYTHON bench/bench_finalize.py [--rounds 40]

where POLICY_PYTHON is the `policy` worker's, as in training. Rollouts of two turns, 1,000 tokens in
all, lie ready: manifests and the rows of a staging area are in memory, for what a gate or a disk
takes to answer is not the finalizer's cost. The sides take turns, in another order each round, and
each goes over all rollouts in its turn:

- `fetching alone`: the snapshots of every rollout are made of their rows, as every store does it;
- `Gym's verify_and_linearize`: the same, and that call, its receipts made beforehand;
- `finalizer, one at a time`: `await Finalizer.finalize(...)`, from the scored answer to the sample:
  ledger and intents (a file) checked, the scored call found, its receipt built, snapshots fetched
  in another thread, Gym's own verification, weight versions, the sample put together;
- `finalizer, groups of 8`: `finalize_group`, as many at once;
- `finalizer, files`: one at a time, and the rows are read from a `FileStore`. No bound.

What fetching alone takes is taken off each of the others' times of the same round, since it is in
all of them. The ratio is the median over the rounds of what is left to Gym's. It must be at most
1.15 one at a time and in groups; otherwise the exit code is 1. The same by seconds of processors is
printed beside it, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym.token_id_capture.staging import verify_and_linearize
from rich.console import Console
from rich.table import Table

from bench.bounds import WIDTH, Bound, verdict
from bench.captured_rollouts import Rollouts, Shape
from posttrain.capture.finalize.finalizer import Finalizer
from posttrain.capture.finalize.receipt import build_receipt
from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nemo_gym.token_id_capture.staging import RolloutReceipt, StagedCallBaseSnapshot

    from posttrain.capture.finalize.words import Finalized

MOST = 1.15
GROUP = 8
DEADLINE_S = 60.0
FETCH = "fetching alone"
GYM = "Gym's verify_and_linearize"
SINGLE = "finalizer, one at a time"
GROUPS = f"finalizer, groups of {GROUP}"
FILES = "finalizer, files"


class Sides:
    """Each side's turn: all rollouts once.

    Args:
        made: the rollouts.
        folder: for a store of files.
    """

    def __init__(self, made: Rollouts, folder: Path) -> None:
        self._made = made
        self._receipts = {name: self._receipt(name) for name in made.answers}
        store = open_store(CaptureSettings(folder=str(folder)))
        made.stage_into(store)
        self._finalizer = Finalizer(made, made.kept, made.folder, DEADLINE_S)
        self._files = Finalizer(made, store, made.folder, DEADLINE_S)
        self.turns: dict[str, Callable[[], Awaitable[None]]] = {
            FETCH: self.fetch,
            GYM: self.gym,
            SINGLE: lambda: self.single(self._finalizer),
            GROUPS: self.groups,
            FILES: lambda: self.single(self._files),
        }

    def _receipt(self, name: str) -> RolloutReceipt:
        answer = self._made.answers[name]
        return build_receipt(self._made.manifests[name], answer["response"], answer["reward"])

    async def fetch(self) -> None:
        """The snapshots of each; as on the other sides, all are kept until the end."""
        fetched = [self._snapshots(receipt) for receipt in self._receipts.values()]
        assert {len(calls) for calls in fetched} == {self._made.shape.turns}

    async def gym(self) -> None:
        """Gym's call for each."""
        linearized = [
            verify_and_linearize(receipt, self._snapshots(receipt))
            for receipt in self._receipts.values()
        ]
        assert {len(row.token_ids) for row in linearized} == {self._made.shape.tokens}

    def _snapshots(self, receipt: RolloutReceipt) -> list[StagedCallBaseSnapshot]:
        return self._made.kept.fetch([record.staging_key for record in receipt.manifest])

    async def single(self, finalizer: Finalizer) -> None:
        """Finalize one after the other."""
        self._check([await finalizer.finalize(scored) for scored in self._made.scored()])

    async def groups(self) -> None:
        """Finalize group after group."""
        finalized: list[Finalized] = []
        for group in batched(self._made.scored(), GROUP, strict=False):
            finalized += await self._finalizer.finalize_group(group)
        self._check(finalized)

    def _check(self, finalized: Sequence[Finalized]) -> None:
        for each in finalized:
            assert each.sample is not None, f"{each.cause}: {each.detail}"
            completion = self._made.shape.turns * self._made.shape.generated
            assert len(each.sample.completion_ids) == completion


@dataclass
class Spent:
    """What a side's turns took, one value a round: seconds of the clock, and of processors."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


async def measure(sides: Sides, rounds: int) -> dict[str, Spent]:
    """What each side's turns took; one more round warms up."""
    names = list(sides.turns)
    spent = {name: Spent() for name in names}
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            started, used = time.perf_counter(), time.process_time()
            await sides.turns[name]()
            if number:
                spent[name].clock.append(time.perf_counter() - started)
                spent[name].processor.append(time.process_time() - used)
    return spent


def ratios(own: Sequence[float], gym: Sequence[float], fetch: Sequence[float]) -> list[float]:
    """A side's times to Gym's, round by round, both without fetching."""
    rounds = zip(own, gym, fetch, strict=True)
    return [(one - without) / (other - without) for one, other, without in rounds]


def report(spent: dict[str, Spent], rollouts: int) -> dict[str, float]:
    """Print the table; the median ratio of each side."""
    table = Table(title="milliseconds a row")
    for column in ("side", "median", "quartiles", "to Gym's", "quartiles", "by processors"):
        table.add_column(column, justify="left" if column == "side" else "right")
    medians = {}
    for name, taken in spent.items():
        each = [1000 * value / rollouts for value in taken.clock]
        to_gym = ratios(taken.clock, spent[GYM].clock, spent[FETCH].clock)
        processor = ratios(taken.processor, spent[GYM].processor, spent[FETCH].processor)
        medians[name] = statistics.median(to_gym)
        low, _, high = statistics.quantiles(each, n=4)
        below, _, above = statistics.quantiles(to_gym, n=4)
        table.add_row(
            name,
            f"{statistics.median(each):.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{medians[name]:.3f}",
            f"{below:.3f} to {above:.3f}",
            f"{statistics.median(processor):.3f}",
        )
    Console(width=WIDTH).print(table)
    return medians


def main() -> int:
    """Measure and print; 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rollouts", type=int, default=64, help="in each turn")
    options = parser.parse_args()
    shape = Shape()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sides = Sides(Rollouts(folder, shape, options.rollouts), folder / "staged")
        spent = asyncio.run(measure(sides, options.rounds))
    print(
        f"{options.rollouts} rollouts a turn of {shape.turns} calls and {shape.tokens} tokens,"
        f" {options.rounds} rounds; load {os.getloadavg()[0]:.1f}"
    )
    medians = report(spent, options.rollouts)
    bounds = [
        Bound(f"{name}, to Gym's", medians[name], "at most", MOST) for name in (SINGLE, GROUPS)
    ]
    return verdict(bounds)


if __name__ == "__main__":
    sys.exit(main())
