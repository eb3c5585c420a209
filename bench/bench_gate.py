r"""The gate: 1,000 rollouts in flight, how late its rows are, and what it keeps in memory.

    PYTHONPATH=. OMP_NUM_THREADS=1 POLICY_PYTHON bench/bench_gate.py --gym GYM_PYTHON
    PYTHONPATH=. OMP_NUM_THREADS=1 POLICY_PYTHON bench/bench_gate.py --gym GYM_PYTHON \
        --rounds 0 --rollouts 100000 --store files

POLICY_PYTHON is the `policy` worker's, as in training, GYM_PYTHON the `gym` worker's. Rollouts of
two turns, about 1,000 tokens each, go through Gym's agent, environment and model server (real), in
front of an engine that decodes nothing but stages as a worker does (`gate_engine.py`), and are
read, finalized and retired by the controller's own source, in groups of 8. The peer is the same
without capture: the same servers in a process of their own, the same engine and source. The parts:

1. `at once`: 1,000 rollouts are sent at the same time and the engine answers at once, so that the
   processors are the limit. The sides take turns; the rate is the median of the rounds'.
2. `sustained`: the engine takes as long for each call as keeps 1,000 rollouts in flight at a given
   rate. The highest of seven rates, from 0.9 to 0.2 of what `at once` reached, at which rows come
   back as fast as rollouts are sent, and each call of the sink and each row in its time, is the one
   that the machine sustains. Three of them are tried, by halves. Near 1 the processors have a
   queue, whatever waits in it; the table has every rate that was tried. A row's time is
   `capture/seal_to_row_seconds`: it begins when the scored answer is there, and the manifest is
   asked for at once then.
3. `memory`: steps of 1,000 rollouts at once; after each the gate is recycled when it has more in
   memory than `--gate-memory`, by the reader, as between two steps of training. Growth is that of
   whole lives of the gate, without the first step of each, which raises what the allocator holds.

Bounds, each a reason for exit code 1: no rollout is lost or a placeholder; nothing stays staged or
in the ledger; at the sustained rate 99 % of calls of the sink take less than 20 ms, and 99 % of
rows less than 100 ms from the manifest; the trainer, the engine and the storage do not
grow; the gate never has more in memory than its limit and what one step may add.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bench.bounds import Bound, verdict
from bench.gate_load import CAPTURE, PLAIN, Side
from bench.gate_stack import resident_mb, stack
from bench.gate_tables import (
    Measured,
    Step,
    Sustained,
    growth,
    percentile,
    show_at_once,
    show_memory,
    show_sustained,
)
from posttrain.imports import serve_promptly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.gate_stack import Stack

SHARES = (0.9, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2)
KEPT, CROWD = 0.97, 1.15
SINK_MS, ROW_MS = 20.0, 100.0
# For 10,000 rollouts, whose tokens are 160 MB.
FLAT_MB = 16.0
# What one step may add to the gate before it is recycled.
STEP_MB = 64.0
EXTRAPOLATED = 100_000


class Bench:
    """The three parts.

    Args:
        running: the stack.
        options: of the command line.
    """

    def __init__(self, running: Stack, options: argparse.Namespace) -> None:
        self._stack = running
        self._options = options
        self._crowd: int = options.concurrency
        self._sides = {
            name: Side(name, running, 4 * self._crowd, options.generated)
            for name in (CAPTURE, PLAIN)
        }
        self.measured = Measured()

    async def run(self) -> Measured:
        """Take all parts."""
        try:
            await self._warm_up()
            if self._options.rounds:
                await self._at_once()
                await self._sustained()
            await self._memory()
            self.measured.staged = self._stack.store.staged()
            self.measured.ledgers = self._stack.ledgers()
        finally:
            for side in self._sides.values():
                await side.close()
        return self.measured

    async def _warm_up(self) -> None:
        self._stack.engine.decode(0.0)
        for side in self._sides.values():
            self.measured.totals.append(await side.at_once(self._crowd // 5))

    async def _at_once(self) -> None:
        names = [CAPTURE, PLAIN]
        for number in range(self._options.rounds):
            for name in names[number % 2 :] + names[: number % 2]:
                came = await self._sides[name].at_once(self._crowd)
                self.measured.totals.append(came)
                self.measured.at_once[name].append(came)
                print(f"at once, {name}: {came.rate:.1f} rollouts/s", flush=True)

    async def _sustained(self) -> None:
        most = statistics.median(came.rate for came in self.measured.at_once[CAPTURE])
        low, high = 0, len(SHARES)
        while low < high:
            middle = (low + high) // 2
            found = await self._at_rate(CAPTURE, SHARES[middle] * most)
            self.measured.sustained.append((CAPTURE, found))
            low, high = (low, middle) if sustains(found, self._crowd) else (middle + 1, high)
        rate = judged(self.measured, self._crowd).rate
        self.measured.sustained.append((PLAIN, await self._at_rate(PLAIN, rate)))

    async def _at_rate(self, name: str, rate: float) -> Sustained:
        decode_s = self._crowd / rate / 2
        self._stack.engine.decode(decode_s)
        self._stack.engine.taken()
        rollouts = self._options.sustained
        came = await self._sides[name].at_rate(rollouts, rate)
        self.measured.totals.append(came)
        sink_ms = [1000 * seconds for seconds in self._stack.engine.taken().sink_seconds]
        # Half a rollout after the first ones are back, until the last one is sent.
        begin, end = 1.5 * 2 * decode_s, rollouts / rate
        back = sum(begin < second <= end for second in came.finished) / (end - begin)
        found = Sustained(rate, back, decode_s, came, sink_ms)
        print(f"sustained, {name}: {found}", flush=True)
        return found

    async def _memory(self) -> None:
        self._stack.engine.decode(0.0)
        side = self._sides[CAPTURE]
        for number in range(self._options.rollouts // self._crowd):
            self.measured.totals.append(await side.at_once(self._crowd))
            resident = {name: resident_mb(pid) for name, pid in self._stack.pids.items()}
            step = Step((number + 1) * self._crowd, resident)
            step.recycled = await side.recycle(self._options.gate_memory)
            self.measured.memory.append(step)
            said = ", ".join(f"{name} {mb:.1f}" for name, mb in resident.items())
            print(f"memory, MiB after {step.rollouts} rollouts: {said}", flush=True)


def bounds(measured: Measured, options: argparse.Namespace) -> list[Bound]:
    """What must hold, after the causes of what was lost and how the gate's memory went."""
    causes = sum((came.placeholders for came in measured.totals), Counter[str]())
    reasons = sum((came.lost for came in measured.totals), Counter[str]())
    for name, number in [*causes.items(), *reasons.items()]:
        print(f"{number} rollouts: {name}")
    asked = sum(came.asked for came in measured.totals)
    rows = sum(came.rows for came in measured.totals)
    print(f"Of {asked:,} rollouts {rows:,} are rows.")
    return [
        Bound("rollouts that are no row", asked - rows, "at most", 0, 0),
        Bound("calls that stay staged", measured.staged, "at most", 0, 0),
        Bound("files that stay in the ledger", measured.ledgers, "at most", 0, 0),
        *(late(judged(measured, options.concurrency)) if measured.sustained else ()),
        *(kept(measured.memory, options) if measured.memory else ()),
    ]


def judged(measured: Measured, crowd: int) -> Sustained:
    """With capture, at the highest rate that is sustained, or else at the lowest of all tried."""
    tried = sorted(
        (each for name, each in measured.sustained if name == CAPTURE), key=lambda each: each.rate
    )
    return next((each for each in reversed(tried) if sustains(each, crowd)), tried[0])


def sustains(found: Sustained, crowd: int) -> bool:
    """Whether rollouts come back as fast as they are sent, and calls and rows in their time."""
    kept = found.back >= KEPT * found.rate and found.came.most <= CROWD * crowd
    return kept and percentile(found.sink_ms, 99) <= SINK_MS and found.row_ms <= ROW_MS


def late(captured: Sustained) -> list[Bound]:
    """What must hold at the sustained rate."""
    share, sink_ms = captured.back / captured.rate, percentile(captured.sink_ms, 99)
    return [
        Bound("share of the sustained rate that came back", share, "at least", KEPT),
        Bound("a call of the sink, p99, ms", sink_ms, "at most", SINK_MS, 1),
        Bound("manifest to row, p99, ms", captured.row_ms, "at most", ROW_MS, 1),
    ]


def kept(steps: Sequence[Step], options: argparse.Namespace) -> list[Bound]:
    """What must hold of memory, after how the gate's went."""
    gate = growth(steps)
    print(
        f"10,000 rollouts add {gate.per_10000:.1f} MiB to the gate, measured over"
        f" {gate.rollouts:,}; it was recycled {gate.recycled} times."
    )
    if options.rollouts < EXTRAPOLATED:
        print(
            f"{EXTRAPOLATED:,} rollouts were not made (`--rollouts {EXTRAPOLATED}`). Extrapolated:"
            f" without recycling they would add {10 * gate.per_10000:.0f} MiB; with it the bound is"
            " that of a step, whatever their number."
        )
    flat = [name for name in steps[0].resident if name not in {"gate", PLAIN}]
    return [
        *(
            Bound(f"growth of the {name}, MiB", grown(steps, name), "at most", FLAT_MB, 1)
            for name in flat
        ),
        Bound("peak of the gate, MiB", gate.peak, "at most", options.gate_memory + STEP_MB, 1),
    ]


def grown(steps: Sequence[Step], name: str) -> float:
    """MiB for 10,000 rollouts that a process grew by, without the first fifth of the steps."""
    first = steps[len(steps) // 5]
    rollouts = steps[-1].rollouts - first.rollouts
    return 10_000 * (steps[-1].resident[name] - first.resident[name]) / max(rollouts, 1)


def main() -> int:
    """Measure and print; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gym", type=Path, required=True, help="the gym worker's interpreter")
    parser.add_argument("--store", choices=("plane", "files"), default="plane")
    parser.add_argument("--concurrency", type=int, default=1000)
    parser.add_argument("--generated", type=int, default=400, help="tokens of each answer")
    parser.add_argument(
        "--rounds", type=int, default=2, help="of the first part; 0 leaves the first two out"
    )
    parser.add_argument("--sustained", type=int, default=2500, help="rollouts at each rate")
    parser.add_argument("--rollouts", type=int, default=10_000, help="of the third part, or 0")
    parser.add_argument("--gate-memory", type=float, default=448.0, help="MiB, as the recipe's")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        stack(options.gym, options.store, options.generated, Path(temporary)) as running,
    ):
        serve_promptly()  # as the single controller does
        measured = asyncio.run(Bench(running, options).run())
    print(f"store: {options.store}; load {os.getloadavg()[0]:.1f}")
    if measured.sustained:
        show_at_once(measured.at_once)
        show_sustained(measured.sustained)
    if measured.memory:
        show_memory(measured.memory)
    return verdict(bounds(measured, options))


if __name__ == "__main__":
    sys.exit(main())
