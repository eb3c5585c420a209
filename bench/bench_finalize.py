"""The finalizer: what a verified row costs over Gym's own verification of the same records.

    PYTHONPATH=. OMP_NUM_THREADS=1 POLICY_PYTHON bench/bench_finalize.py [--rounds 100]

where POLICY_PYTHON is the `policy` worker's, as in training. Rollouts of two turns, 1,000 tokens in
all, lie ready: manifests and the rows of a staging area are in memory, for what a gate or a disk
takes to answer is not the finalizer's cost. The sides take turns, in another order each round, and
each goes over all rollouts in its turn. Three pairs are alike but for what is called:

- in the main thread, nothing else running: Gym's `verify_and_linearize` with a receipt that was
  made beforehand, and the finalizer's `verify`, from the scored answer to the sample: ledger
  checked, scored call found, receipt built, Gym's verification, weight versions, sample;
- from an event loop, one at a time: Gym's call by `asyncio.to_thread`, as a trainer has to make it
  that goes on meanwhile, and all of `Finalizer.finalize`, which reads the intents (a file) besides;
- the same in groups of 8: `asyncio.gather` of Gym's calls, and `Finalizer.finalize_group`.

The last side reads the staged rows from a `FileStore`. All sides make snapshots of rows, as every
store does; what that alone takes is a side too, and is taken off the others' times of its round.
A pair's ratio is the median over the rounds. Each must be at most 1.15, or the exit code is 1. The
same by seconds of processors is printed beside it, which a busy machine changes less, and the ratio
to the plain call, which has the price of a thread in it.
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
from posttrain.capture.finalize.ledger import Ledger, read_intents
from posttrain.capture.finalize.receipt import build_receipt
from posttrain.capture.finalize.verify import verify
from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from nemo_gym.token_id_capture.staging import (
        LinearizedRow,
        RolloutReceipt,
        StagedCallBaseSnapshot,
    )

    from posttrain.capture.finalize.words import Finalized
    from posttrain.sample import Sample

MOST = 1.15
GROUP = 8
DEADLINE_S = 60.0
FETCH = "fetching alone"
GYM, VERIFY = "Gym's call", "verify"
GYM_SINGLE, SINGLE = "Gym's call, from a loop", "finalize"
GYM_GROUPS, GROUPS = f"Gym's call, from a loop, {GROUP} at once", f"finalize_group of {GROUP}"
FILES = "finalize, from files"
# Who is compared with whom.
PEERS = {VERIFY: GYM, SINGLE: GYM_SINGLE, GROUPS: GYM_GROUPS}


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
        self._ledgers = {
            name: Ledger(manifest, read_intents(made.folder, name))
            for name, manifest in made.manifests.items()
        }
        self.turns: dict[str, Callable[[], Awaitable[None]]] = {
            FETCH: self.fetch,
            GYM: self.gym,
            VERIFY: self.verify,
            GYM_SINGLE: self.gym_single,
            SINGLE: lambda: self.single(self._finalizer),
            GYM_GROUPS: self.gym_groups,
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
        self._check_linearized([self._linearize(name) for name in self._receipts])

    async def verify(self) -> None:
        """The finalizer's own work for each."""
        verified = [
            verify(scored, self._ledgers[scored.sample_id], self._made.kept)
            for scored in self._made.scored()
        ]
        self._check([each.sample for each in verified])

    async def gym_single(self) -> None:
        """Gym's call for one after the other, in another thread."""
        calls = [await asyncio.to_thread(self._linearize, name) for name in self._receipts]
        self._check_linearized(calls)

    async def gym_groups(self) -> None:
        """Gym's call in other threads, as many at once as a group has rollouts."""
        linearized: list[LinearizedRow] = []
        for group in batched(self._receipts, GROUP, strict=False):
            calls = (asyncio.to_thread(self._linearize, name) for name in group)
            linearized += await asyncio.gather(*calls)
        self._check_linearized(linearized)

    def _linearize(self, name: str) -> LinearizedRow:
        receipt = self._receipts[name]
        return verify_and_linearize(receipt, self._snapshots(receipt))

    def _check_linearized(self, linearized: Sequence[LinearizedRow]) -> None:
        assert {len(row.token_ids) for row in linearized} == {self._made.shape.tokens}

    def _snapshots(self, receipt: RolloutReceipt) -> list[StagedCallBaseSnapshot]:
        return self._made.kept.fetch([record.staging_key for record in receipt.manifest])

    async def single(self, finalizer: Finalizer) -> None:
        """Finalize one after the other."""
        finalized = [await finalizer.finalize(scored) for scored in self._made.scored()]
        self._check([each.sample for each in finalized])

    async def groups(self) -> None:
        """Finalize group after group."""
        finalized: list[Finalized] = []
        for group in batched(self._made.scored(), GROUP, strict=False):
            finalized += await self._finalizer.finalize_group(group)
        self._check([each.sample for each in finalized])

    def _check(self, samples: Sequence[Sample | None]) -> None:
        shape = self._made.shape
        lengths = {sample and len(sample.completion_ids) for sample in samples}
        assert lengths == {shape.turns * shape.generated}, lengths


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


def ratios(spent: Mapping[str, Spent], name: str, peer: str, what: str) -> list[float]:
    """A side's times to another one's, round by round, both without fetching."""
    own, other, fetch = (getattr(spent[each], what) for each in (name, peer, FETCH))
    return [(a - without) / (b - without) for a, b, without in zip(own, other, fetch, strict=True)]


def report(spent: Mapping[str, Spent], rollouts: int) -> None:
    """Print the table."""
    table = Table(title="milliseconds a row")
    columns = ("side", "median", "quartiles", "to its peer", "quartiles", "processors", "to plain")
    for column in columns:
        table.add_column(column, justify="left" if column == "side" else "right")
    for name, taken in spent.items():
        each = [1000 * value / rollouts for value in taken.clock]
        low, _, high = statistics.quantiles(each, n=4)
        cells = [f"{statistics.median(each):.3f}", f"{low:.3f} to {high:.3f}"]
        if peer := PEERS.get(name):
            to_peer = ratios(spent, name, peer, "clock")
            below, median, above = statistics.quantiles(to_peer, n=4)
            processors = statistics.median(ratios(spent, name, peer, "processor"))
            cells += [f"{median:.3f}", f"{below:.3f} to {above:.3f}", f"{processors:.3f}"]
        else:
            cells += [""] * 3
        plain = statistics.median(ratios(spent, name, GYM, "clock"))
        table.add_row(name, *cells, "" if name == FETCH else f"{plain:.3f}")
    Console(width=WIDTH).print(table)


def main() -> int:
    """Measure and print; 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rollouts", type=int, default=16, help="in each turn")
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
    report(spent, options.rollouts)
    medians = {
        f"{name}, to {peer}": statistics.median(ratios(spent, name, peer, "clock"))
        for name, peer in PEERS.items()
    }
    return verdict([Bound(name, ratio, "at most", MOST) for name, ratio in medians.items()])


if __name__ == "__main__":
    sys.exit(main())
