"""A training step: the bare floor, TRL, the stack in process and with Gym, and a refit's links.

    PYTHONPATH=ci:. python bench/bench_step.py [--rounds 5] [--steps 4] [--sizes 2x8x32 16x8x64]

All sides of one size live at once and take turns, in another order each round: a turn is a few
steps that are dropped and a few that are timed, and what is printed is the median over all rounds.
Every side starts from one checkpoint, generates the same number of tokens for the same prompts at
temperature 1, and must show after each turn that its weights changed and its loss is finite.
docs/benchmarks.md says what each row does and does not do. Targets: the stack in process takes at
most 1.15 times the floor, and less than TRL with vLLM at the larger size; when one is missed that
is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench import step_work as work
from bench.step_peer import peer
from bench.step_turns import Asked, Side
from exacthead.config import load
from exacthead.equip import open_store, ready, resolve_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SIZES = (work.Size(2, 8, 32), work.Size(16, 8, 64))
LOGS = work.ROOT / ".cache" / "bench-step"
FLOOR, TRL, TRL_VLLM = "floor", "TRL, own generation", "TRL, vLLM colocated"
OURS, GYM = "ours, in process", "ours, Gym"
ROLLOUTS, COLLECTOR = "rollouts alone: ours, Gym", "rollouts alone: Gym's collector"
BY_GYM = frozenset({GYM, ROLLOUTS, COLLECTOR})
RATIO_TO_FLOOR = 1.15
START_S = 400.0
TURN_S = 300.0
REFIT_S = 900.0


@dataclass
class Row:
    """One row of the table.

    Attributes:
        side: who takes its turns.
        asks: what the side is told to measure.
        trains: whether a step changes weights.
        seconds: of every timed step of every round.
    """

    side: Side
    asks: str
    trains: bool = True
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median seconds a step."""
        return statistics.median(self.seconds)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """What every side's process gets beside the caller's variables."""
    return {
        "PYTHONPATH": str(work.ROOT),
        "OMP_NUM_THREADS": str(work.THREADS),
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": str(work.THREADS),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(LOGS / "huggingface"),
        **more,
    }


@dataclass(frozen=True)
class Starter:
    """Starts the sides of one size.

    Attributes:
        pythons: interpreter by worker.
        size: what one step is.
        running: ends them.
    """

    pythons: Mapping[str, Path]
    size: work.Size
    running: ExitStack

    def start(self, name: str, worker: str, script: str, *arguments: str, **more: str) -> Side:
        """Start a script of this folder in a worker's interpreter, with these variables more."""
        command = [
            *(str(self.pythons[worker]), str(work.ROOT / "bench" / script)),
            *("--size", str(self.size), *arguments),
        ]
        log = LOGS / f"{name}-{self.size}.log"
        return self.running.enter_context(Side(name, command, environment(more), log))

    def rows(self) -> dict[str, Row]:
        """Start every side, wait until all are ready, and say what measures which row."""
        workers = ["--generation", str(self.pythons["vllm"]), "--gym", str(self.pythons["gym"])]
        floor = self.start("floor", "vllm", "floor.py")
        trl = self.start("trl", "trl", "step_trl.py")
        vllm = self.start("trl-vllm", "trl", "step_trl.py", "--vllm")
        ours = self.start("ours", "policy", "step_ours.py", *workers)
        told = {side.name: side.answer(START_S) for side in (floor, trl, vllm, ours)}
        config = told["ours"]["gym"]
        collector = self.start("gym", "gym", "step_collector.py", NEMO_GYM_CONFIG_DICT=config)
        told["gym"] = collector.answer(START_S)
        print(*(f"{name}: {said['threads']}" for name, said in told.items()), sep="\n")
        return {
            FLOOR: Row(floor, "floor"),
            TRL: Row(trl, "step"),
            TRL_VLLM: Row(vllm, "step"),
            OURS: Row(ours, "in process"),
            GYM: Row(ours, "gym"),
            ROLLOUTS: Row(ours, "gym rollouts", trains=False),
            COLLECTOR: Row(collector, "gym rollouts", trains=False),
        }


def measure(
    pythons: Mapping[str, Path], size: work.Size, options: argparse.Namespace
) -> dict[str, Row]:
    """All rows of one size."""
    tokens = size.sequences * size.new_tokens
    with ExitStack() as running:
        rows = Starter(pythons, size, running).rows()
        for number in range(options.rounds):
            names = [name for name in rows if name not in BY_GYM or number < options.gym_rounds]
            first = number % len(names)
            for name in names[first:] + names[:first]:
                row = rows[name]
                # The first steps of all fill caches and compile.
                warm = options.warm if number else options.warm + options.first
                asked = Asked(row.asks, options.steps, warm)
                row.seconds += row.side.turn(asked, TURN_S, tokens=tokens, trains=row.trains)
            so_far = (f"{name} {rows[name].median:.3f}" for name in names)
            print(f"{size}, round {number + 1} of {options.rounds}: {'; '.join(so_far)}")
    return rows


def show(size: work.Size, rows: Mapping[str, Row]) -> None:
    """Print one size's table: seconds a step, and ratios to the floor."""
    table = Table(title=f"{size} (prompts x rollouts x new tokens), seconds a step")
    for column in ("row", "median", "quartiles", "steps", "to floor"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for name, row in rows.items():
        if not row.seconds:
            continue
        low, _, high = statistics.quantiles(row.seconds, n=4)
        ratio = f"{row.median / rows[FLOOR].median:.2f}" if row.trains else ""
        spread = f"{low:.4f} to {high:.4f}"
        table.add_row(name, f"{row.median:.4f}", spread, str(len(row.seconds)), ratio)
    console = Console(width=110)
    console.print(table)
    if not rows[GYM].seconds:
        return
    cost = rows[GYM].median - rows[OURS].median
    against = rows[ROLLOUTS].median / rows[COLLECTOR].median
    console.print(
        f"What Gym costs a step: {cost:.3f} s."
        f" Our collection of its rollouts takes {against:.2f} of its own collector's time."
    )


def missed(measured: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """The targets that were missed, in words."""
    problems = []
    for size, rows in measured.items():
        ratio = rows[OURS].median / rows[FLOOR].median
        if ratio > RATIO_TO_FLOOR:
            problems.append(f"{size}: ours is {ratio:.3f} of the floor, not {RATIO_TO_FLOOR}")
    larger = str(SIZES[-1])
    if larger in measured:
        ours, theirs = (measured[larger][name].median for name in (OURS, TRL_VLLM))
        if ours >= theirs:
            problems.append(f"{larger}: ours takes {ours:.3f} s, TRL with vLLM {theirs:.3f} s")
    return problems


def refit(pythons: Mapping[str, Path], *arguments: str) -> dict[str, Any]:
    """One model's refit and its links."""
    command = [str(pythons["policy"]), str(work.ROOT / "bench" / "step_refit.py")]
    command += ["--generation", str(pythons["vllm"]), *arguments]
    ran = subprocess.run(
        command,
        cwd=work.ROOT,
        env={**os.environ, **environment({})},
        check=True,
        stdout=subprocess.PIPE,
        timeout=REFIT_S,
    )
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def show_refits(answers: Sequence[Mapping[str, Any]]) -> None:
    """Print the refits' table: milliseconds, and the ratio to the slowest link."""
    table = Table("milliseconds", *(f"{each['megabytes']:.1f} MB" for each in answers))
    for name in answers[0]:
        if name not in {"megabytes", "slowest", "ratio"}:
            table.add_row(name, *(f"{1000 * each[name]:.2f}" for each in answers))
    table.add_section()
    shown = (f"{each['ratio']:.2f} ({each['slowest']})" for each in answers)
    table.add_row("refit to its slowest link", *shown)
    Console(width=110).print(table)


def main() -> None:
    """Print the tables; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=work.Size.parse, nargs="*", default=SIZES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--gym-rounds",
        type=int,
        default=2,
        help="rounds that rows with Gym take part in: a step of theirs is several times as long",
    )
    parser.add_argument("--steps", type=int, default=4, help="timed, of each turn")
    parser.add_argument("--warm", type=int, default=2, help="dropped, of each turn")
    parser.add_argument("--first", type=int, default=4, help="dropped besides, of the first turn")
    parser.add_argument("--refits", type=int, default=10, help="of each model; 0 for none")
    parser.add_argument("--megabytes", type=float, default=200.0, help="of the larger model")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    harness = load(work.ROOT)
    specs = resolve_all(harness, ("policy", "vllm", "gym"), "cpu")
    with ready(harness, specs, open_store(work.ROOT), print) as built:
        pythons = {name: worker.python for name, worker in built.items()}
        pythons["trl"] = peer(pythons["vllm"])
        measured = {str(size): measure(pythons, size, options) for size in options.sizes}
        for size in options.sizes:
            show(size, measured[str(size)])
        if options.refits:
            times = ("--refits", str(options.refits))
            larger = ("--megabytes", str(options.megabytes))
            show_refits([refit(pythons, *times), refit(pythons, *times, *larger)])
    problems = missed(measured)
    print(*problems or ["every target is met"], sep="\n")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
