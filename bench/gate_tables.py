"""What bench_gate.py prints: a table for each of its parts."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.bounds import WIDTH
from bench.gate_load import CAPTURE, PLAIN, Came

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = "capture/seal_to_row_seconds/"


@dataclass
class Sustained:
    """A side at a rate.

    Attributes:
        rate: rollouts a second that were sent.
        back: that came back, while others were sent.
        decode_s: seconds of each call of the engine.
        came: what came of them.
        sink_ms: milliseconds of each call of the sink.
    """

    rate: float
    back: float
    decode_s: float
    came: Came
    sink_ms: list[float]

    @property
    def row_ms(self) -> float:
        """The 99th percentile from the manifest's request to the row, in milliseconds."""
        return 1000 * float(self.came.metrics[f"{SECONDS}p99"])

    def __str__(self) -> str:
        said = f"{self.rate:.1f} rollouts/s sent, {self.back:.1f} back, {self.came.most} in flight"
        if not self.sink_ms:
            return said
        sink_ms = percentile(self.sink_ms, 99)
        return f"{said}; p99 of the sink {sink_ms:.1f} ms, manifest to row {self.row_ms:.1f} ms"


@dataclass
class Step:
    """One step of the part about memory.

    Attributes:
        rollouts: of this part, so far.
        resident: MiB of each process after the step.
        recycled: whether the gate was recycled then.
    """

    rollouts: int
    resident: dict[str, float]
    recycled: bool = False


@dataclass
class Measured:
    """What all parts measured.

    Attributes:
        at_once: the rounds of each side that count.
        sustained: with capture at every rate that was tried, and then plain Gym at the one that is
            judged.
        memory: its steps.
        totals: everything that was sent.
        staged: calls that are staged at the end.
        ledgers: files of the gate's ledger at the end.
    """

    at_once: dict[str, list[Came]] = field(default_factory=lambda: {CAPTURE: [], PLAIN: []})
    sustained: list[tuple[str, Sustained]] = field(default_factory=list)
    memory: list[Step] = field(default_factory=list)
    totals: list[Came] = field(default_factory=list)
    staged: int = 0
    ledgers: int = 0


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]


def show_at_once(at_once: Mapping[str, Sequence[Came]]) -> None:
    """Print rates, and what processors each process took of a rollout."""
    table = Table(title="at once: rollouts a second, and milliseconds of processors a rollout")
    table.add_column("")
    for name in at_once:
        table.add_column(name, justify="right")
    medians = {name: statistics.median(came.rate for came in of) for name, of in at_once.items()}
    table.add_row("rollouts/s", *(f"{rate:.1f}" for rate in medians.values()))
    spread = (
        f"{min(c.rate for c in of):.1f} to {max(c.rate for c in of):.1f}" for of in at_once.values()
    )
    table.add_row("least to most", *spread)
    table.add_section()
    processes = list(at_once[CAPTURE][0].processor)
    for process in processes:
        each = (
            statistics.median(1000 * came.processor[process] / came.rows for came in of)
            for of in at_once.values()
        )
        table.add_row(process, *(f"{ms:.2f}" for ms in each))
    whole = (
        statistics.median(1000 * sum(came.processor.values()) / came.rows for came in of)
        for of in at_once.values()
    )
    table.add_row("all of them", *(f"{ms:.2f}" for ms in whole))
    console = Console(width=WIDTH)
    console.print(table)
    console.print(
        f"With capture to plain Gym: {medians[CAPTURE] / medians[PLAIN]:.2f} of its rate."
    )


def show_sustained(sustained: Sequence[tuple[str, Sustained]]) -> None:
    """Print the rates that were tried and what is late at each."""
    table = Table(title="sustained: milliseconds, unless it says otherwise")
    table.add_column("")
    for name, _ in sustained:
        table.add_column(name, justify="right")
    of = [each for _, each in sustained]
    table.add_row("rollouts/s sent", *(f"{each.rate:.1f}" for each in of))
    table.add_row("rollouts/s back", *(f"{each.back:.1f}" for each in of))
    table.add_row("rollouts in flight, most", *(f"{each.came.most}" for each in of))
    table.add_row("seconds of the engine a call", *(f"{each.decode_s:.1f}" for each in of))
    for percent in (50, 99):
        late = (1000 * (percentile(each.came.took, percent) - 2 * each.decode_s) for each in of)
        table.add_row(f"a rollout without the engine, p{percent}", *(f"{ms:.0f}" for ms in late))
    for percent in (50, 99, 100):
        sink = (f"{percentile(each.sink_ms, percent):.1f}" if each.sink_ms else "" for each in of)
        table.add_row(f"a call of the sink, p{percent}", *sink)
    for name in ("p50", "p99", "max"):
        metrics = (each.came.metrics.get(SECONDS + name) for each in of)
        rows = ("" if seconds is None else f"{1000 * float(seconds):.1f}" for seconds in metrics)
        table.add_row(f"manifest to row, {name}", *rows)
    Console(width=WIDTH).print(table)


@dataclass(frozen=True)
class Growth:
    """How the gate's memory went.

    Attributes:
        per_10000: MiB that 10,000 rollouts add, over whole lives without each one's first step.
        rollouts: that this was measured over.
        largest: MiB, the most that one step added.
        peak: MiB, the most after any step.
        recycled: how often.
    """

    per_10000: float
    rollouts: int
    largest: float
    peak: float
    recycled: int


def growth(steps: Sequence[Step]) -> Growth:
    """Sum up the gate's memory."""
    gate = [step.resident["gate"] for step in steps]
    added = rollouts = 0.0
    largest = 0.0
    first = 0  # of this life of the gate
    for place, step in enumerate(steps):
        if place > first:
            size = step.rollouts - steps[place - 1].rollouts
            added += gate[place] - gate[place - 1]
            rollouts += size
            largest = max(largest, gate[place] - gate[place - 1])
        if step.recycled:
            first = place + 1
    per = 10_000 * added / rollouts if rollouts else math.nan
    return Growth(per, int(rollouts), largest, max(gate), sum(step.recycled for step in steps))


def show_memory(steps: Sequence[Step]) -> None:
    """Print every process's memory after some of the steps."""
    table = Table(title="memory: MiB after so many rollouts")
    table.add_column("rollouts", justify="right")
    for name in steps[0].resident:
        table.add_column(name, justify="right")
    table.add_column("then")
    every = max(1, len(steps) // 20)
    for place, step in enumerate(steps):
        if place % every == 0 or step.recycled or place == len(steps) - 1:
            cells = (f"{mb:.1f}" for mb in step.resident.values())
            table.add_row(f"{step.rollouts:,}", *cells, "recycled" if step.recycled else "")
    Console(width=WIDTH).print(table)
