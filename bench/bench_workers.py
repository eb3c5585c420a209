"""Workers: what building through the store costs over plain uv, and what reusing one costs.

    PYTHONPATH=ci:. python bench/bench_workers.py unit --flavour cpu --rounds 4

The peer is what one would type by hand: ``uv venv``, ``uv pip sync`` from the cache and
``compileall``, of the same lock, on the same interpreter, next to the store. A build that is not
measured fills uv's cache and the system's; then both are built in every round, and the one that
goes first changes from round to round, since whoever goes second finds more in memory: ask for an
even number of rounds. A ratio compares two numbers of one run; the seconds alone say little about
another machine.

Of each side both are counted: the seconds on the clock, and the seconds of processors that all of
its processes took, which another load on the machine changes far less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.processors import adopt_orphans, processor_seconds
from exacthead.config import load
from exacthead.environ import clean_environment
from exacthead.workers.index import read_indexes
from exacthead.workers.resolve import build_supplies, resolve
from exacthead.workers.store import Store
from exacthead.workers.uv import find_uv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exacthead.workers.build import Supplies
    from exacthead.workers.spec import Spec

OWN_STAGES = ("venv", "sync", "compile")
LATER_STAGES = ("probes", "manifest", "publish")


def plain(spec: Spec, supplies: Supplies, folder: Path) -> dict[str, float]:
    """Seconds of each stage by hand, in ``folder``."""
    environment = {**clean_environment(os.environ), **supplies.get("uv_environment", {})}
    environment["UV_NO_CONFIG"] = "1"
    uv = find_uv(environment)
    root = folder / "plain"
    lock = folder / "requirements.txt"
    lock.write_text(spec.lock, encoding="utf-8")
    sync = [uv, "pip", "sync", "-q", "--require-hashes", "--offline", "--link-mode", spec.link_mode]
    sync += ["--python", str(root / "bin" / "python"), *supplies.get("uv_arguments", ()), str(lock)]
    site = root / "lib" / f"python{'.'.join(spec.interpreter.version.split('.')[:2])}"
    commands: dict[str, Sequence[str]] = {
        "venv": [uv, "venv", "-q", "--no-project", "-p", str(spec.interpreter.path), str(root)],
        "sync": sync,
        "compile": [
            *(str(root / "bin" / "python"), "-I", "-m", "compileall", "-j", "0", "-qq"),
            str(site / "site-packages"),
        ],
    }
    return {name: timed(command, environment, name) for name, command in commands.items()}


def timed(command: Sequence[str], environment: Mapping[str, str], name: str) -> float:
    """Seconds that a command takes; byte-compilation may fail for single files."""
    started = time.perf_counter()
    subprocess.run(command, env=dict(environment), check=name != "compile", timeout=3600)
    return time.perf_counter() - started


def built(store: Store, spec: Spec, supplies: Supplies) -> dict[str, float]:
    """Seconds of each stage of a build through the store, with the processors' as `processors`."""
    marks: dict[str, float] = {}

    def mark(stage: str) -> None:
        marks[stage] = processor_seconds()

    timings = dict(store.ensure(spec, progress=mark, **supplies).timings)
    return {**timings, "processors": marks[LATER_STAGES[0]] - marks[OWN_STAGES[0]]}


def by_hand(spec: Spec, supplies: Supplies, folder: Path) -> dict[str, float]:
    """Seconds of each stage by hand, with the processors' as `processors`."""
    before = processor_seconds()
    timings = plain(spec, supplies, folder)
    return {**timings, "processors": processor_seconds() - before}


def reuse(store: Store, spec: Spec, times: int) -> list[float]:
    """Seconds of each of ``times`` calls for a ready worker."""
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        assert store.ensure(spec).reused
        spent.append(time.perf_counter() - started)
    return sorted(spent)


def row(name: str, ours: float, theirs: float | None = None) -> None:
    """Print one line of the table: seconds, the peer's seconds, the ratio."""
    peer = "" if theirs is None else f"{theirs:10.3f} {ours / theirs:8.3f}"
    print(f"{name:<24} {ours:10.3f} {peer}")


def main() -> None:
    """Measure one worker of harness.toml and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("worker")
    parser.add_argument("--flavour", default="cpu")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--reuses", type=int, default=200)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository")
    options = parser.parse_args()
    harness = load(options.root)
    indexes = read_indexes(os.environ)
    spec = resolve(harness, options.worker, options.flavour, indexes=indexes)
    supplies = build_supplies(harness, spec, indexes)
    cache = options.root / ".cache"
    cache.mkdir(exist_ok=True)

    adopt_orphans()
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(dir=cache, prefix="bench-") as temporary:
        folder = Path(temporary)
        # Not measured: it fills uv's cache and the system's.
        Store(folder / "warm").ensure(spec, **supplies)
        for number in range(options.rounds):
            store = Store(folder / f"store-{number}")
            if number % 2:
                ours.append(built(store, spec, supplies))
            (folder / f"plain-{number}").mkdir()
            theirs.append(by_hand(spec, supplies, folder / f"plain-{number}"))
            if number % 2 == 0:
                ours.append(built(store, spec, supplies))
            print(f"round {number + 1} of {options.rounds}: ", end="")
            print(*(f"{sum(side[-1][n] for n in OWN_STAGES):.1f} s" for side in (ours, theirs)))
        spent = reuse(store, spec, options.reuses)

    print(f"worker {spec.name} ({spec.flavour}), medians of {options.rounds} rounds, seconds")
    print(f"{'stage':<24} {'store':>10} {'plain uv':>10} {'ratio':>8}")
    for name in OWN_STAGES:
        row(name, median(ours, name), median(theirs, name))
    row("cold build", *(sum(median(side, name) for name in OWN_STAGES) for side in (ours, theirs)))
    row("cold build, processors", median(ours, "processors"), median(theirs, "processors"))
    for name in LATER_STAGES:
        row(name, median(ours, name))
    row("total", median(ours, "total"))
    middle, most, worst = (1000 * spent[int(part * (len(spent) - 1))] for part in (0.5, 0.95, 1.0))
    print(
        f"ensure of a ready worker, {len(spent)} calls: median {middle:.2f} ms, "
        f"95 % within {most:.2f} ms, worst {worst:.2f} ms"
    )


def median(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    """The median over all rounds of the seconds of one stage."""
    return statistics.median(timings[name] for timings in rounds)


if __name__ == "__main__":
    main()
