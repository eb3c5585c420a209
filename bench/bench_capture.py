"""Capture in an engine's worker: rollout tokens a second with it on against off, in one engine.

    PYTHONPATH=. OMP_NUM_THREADS=1 VLLM_GYM_PYTHON bench/bench_capture.py [--store plane]

where VLLM_GYM_PYTHON is the `vllm-gym` worker's. One real worker serves both sides: a request that
does not ask for capture goes straight on to vLLM. 16 clients, in a process of their own, ask for
512 new tokens a call over HTTP, the next when the last one is answered; what they ask for is what
Gym's model server asks for with capture off and on. The sides take turns on the same prompts with
the same seeds, so that they compute the same. What is staged goes to a TransferQueue plane (as in
training: a ledger, a controller and two storage units beside the engine), or to files.

All 16 calls of a wave end in the same step, so that nothing is decoded while they are staged: no
other schedule shows more of the cost. The ratio is the median over the rounds of tokens a second
with capture to without in the same round. It must be at least 0.97, on a workload of which decoding
is at least 90 %: the time of the engine's steps that decode and do nothing else, of the time of the
turns without capture. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.bounds import WIDTH, Bound, verdict
from bench.capture_client import Turn, take
from bench.capture_stores import opened
from posttrain.generation.settings import EngineSettings, engine_environment

# The engine lives in this process: this has to come before torch and vLLM.
os.environ.update(engine_environment())

from posttrain.generation.worker import GenerationWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.capture_stores import Opened

MODEL = Path(__file__).resolve().parents[1] / "fixtures" / "tiny-llama"
LONGEST = 1024
LEAST, DECODING = 0.97, 0.90
ON, OFF = "capture on", "capture off"
START_S = 600.0


@dataclass
class Spent:
    """What the turns of one side took, one value a turn.

    Attributes:
        seconds: of the clock, as the clients saw it.
        processor: seconds of processors of the worker's process.
        decoding: seconds of the engine's steps that only decoded.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    decoding: list[float] = field(default_factory=list)


class Decoding:
    """Adds up the seconds of steps in which every scheduled request gets one more token."""

    def __init__(self, worker: GenerationWorker) -> None:
        self.seconds = 0.0
        core = worker._core  # noqa: SLF001 - looks inside
        assert core is not None
        self._only = False
        step: Callable[[Any], None] = core._step  # noqa: SLF001

        def timed(engine: Any) -> None:
            executor = engine.model_executor
            if not hasattr(executor, "_bench_execute"):
                executor._bench_execute = executor.execute_model  # noqa: SLF001
                executor.execute_model = self._noting(executor.execute_model)
            self._only = False
            started = time.perf_counter()
            step(engine)
            if self._only:
                self.seconds += time.perf_counter() - started

        core._step = timed  # type: ignore[assignment, method-assign]  # noqa: SLF001

    def _noting(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        def noted(scheduled: Any, *arguments: Any, **named: Any) -> Any:
            each = scheduled.num_scheduled_tokens.values()
            self._only = bool(each) and max(each) == 1
            return execute(scheduled, *arguments, **named)

        return noted


def make_model(folder: Path, megabytes: float | None) -> Path:
    """The tiny model, or a larger one with random weights, for longer sequences."""
    if megabytes is None:
        shutil.copytree(MODEL, folder)
    else:
        from bench import step_refit

        step_refit.make_model(folder, megabytes)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"max_position_embeddings": LONGEST}), encoding="utf-8")
    return folder


def measure(
    worker: GenerationWorker,
    store: Opened,
    clients: ProcessPoolExecutor,
    options: argparse.Namespace,
) -> dict[str, Spent]:
    """Let the sides take turns; one more round warms up."""
    spent = {ON: Spent(), OFF: Spent()}
    decoding = Decoding(worker)
    size = (options.clients, options.calls, options.new_tokens)
    for number in range(options.rounds + 1):
        for name in (ON, OFF) if number % 2 else (OFF, ON):
            before, used = decoding.seconds, time.process_time()
            took = clients.submit(take, Turn(worker.base_url, name == ON, *size)).result()
            used, decoded = time.process_time() - used, decoding.seconds - before
            store.retire(took.keys)
            if number:
                spent[name].seconds.append(took.seconds)
                spent[name].processor.append(used)
                spent[name].decoding.append(decoded)
        if number:
            seconds = (f"{name} {each.seconds[-1]:.2f} s" for name, each in spent.items())
            print(f"round {number} of {options.rounds}: {', '.join(seconds)}", flush=True)
    return spent


def started_clients(running: ExitStack) -> ProcessPoolExecutor:
    """The clients' process, before Ray and vLLM change where this one imports from."""
    clients = running.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
    clients.submit(int).result()
    return clients


def report(spent: dict[str, Spent], tokens: int) -> int:
    """Print tables and bounds; the exit code."""
    table = Table(title=f"{tokens} new tokens a turn")
    columns = ("side", "tokens/s", "quartiles", "processor s a turn", "decoding", "to off")
    for column in columns:
        table.add_column(column, justify="left" if column == "side" else "right")
    ratios = {}
    for name, each in spent.items():
        rates = [tokens / seconds for seconds in each.seconds]
        low, _, high = statistics.quantiles(rates, n=4)
        paired = zip(spent[OFF].seconds, each.seconds, strict=True)
        ratios[name] = [off / own for off, own in paired]
        share = sum(each.decoding) / sum(each.seconds)
        table.add_row(
            name,
            f"{statistics.median(rates):.0f}",
            f"{low:.0f} to {high:.0f}",
            f"{statistics.median(each.processor):.2f}",
            f"{100 * share:.1f} %",
            f"{statistics.median(ratios[name]):.3f}",
        )
    console = Console(width=WIDTH)
    console.print(table)
    low, _, high = statistics.quantiles(ratios[ON], n=4)
    processor = statistics.median(
        off / on for on, off in zip(spent[ON].processor, spent[OFF].processor, strict=True)
    )
    console.print(
        f"On to off: quartiles {low:.3f} to {high:.3f}; by processor seconds {processor:.3f}."
    )
    decoding = sum(spent[OFF].decoding) / sum(spent[OFF].seconds)
    return verdict(
        [
            Bound("tokens a second, on to off", statistics.median(ratios[ON]), "at least", LEAST),
            Bound("share of decoding, off", decoding, "at least", DECODING),
        ]
    )


def main() -> int:
    """Measure and print; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--calls", type=int, default=2, help="of each client in a turn")
    parser.add_argument("--new-tokens", type=int, default=512, help="of each call")
    parser.add_argument("--store", choices=("plane", "files"), default="plane")
    parser.add_argument("--megabytes", type=float, help="of a larger model; else the tiny one")
    options = parser.parse_args()
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        clients = started_clients(running)
        store = running.enter_context(opened(options.store, folder))
        worker = GenerationWorker("generation-0", deadline_s=START_S)
        running.callback(worker.shutdown)
        worker.start(
            EngineSettings(
                str(make_model(folder / "model", options.megabytes)),
                max_model_len=LONGEST,
                max_num_seqs=options.clients,
                kv_cache_bytes=512 << 20 if options.megabytes else 64 << 20,
                capture=store.settings,
            )
        )
        spent = measure(worker, store, clients, options)
    print(f"store: {options.store}; load {os.getloadavg()[0]:.1f}")
    return report(spent, options.clients * options.calls * options.new_tokens)


if __name__ == "__main__":
    sys.exit(main())
