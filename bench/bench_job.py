"""The main job as a user starts it: wall time, the harness's share, peak memory, stages.

Usage: python bench/bench_job.py [--rounds N]

Each round is one `./noxw -s functional_gym_training` with ready workers, on an otherwise idle
machine. The harness's share is the command's wall time less the leg's own. Peak memory is the
leg's whole process tree as proportional set size, sampled by the harness. Bounds: 75 s, 2 s, 8 GB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
ITEM = "gym_training.flag_off"
BOUNDS = {"wall s": 75.0, "harness s": 2.0, "peak MiB": 8e9 / 2**20}


def one_round() -> dict[str, float]:
    """Run the job once; seconds and MiB by name, stages under ``stage NAME``."""
    before = set((ROOT / "runs").glob("*/"))
    started = time.perf_counter()
    subprocess.run(
        ["./noxw", "-s", "functional_gym_training"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wall = time.perf_counter() - started
    (run,) = set((ROOT / "runs").glob("*/")) - before
    item = run / "items" / ITEM
    result = json.loads((item / "result.json").read_text(encoding="utf-8"))
    (line,) = (item / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    stages = {
        f"stage {name.removeprefix('timing/')}": value
        for name, value in json.loads(line).items()
        if name.startswith("timing/")
    }
    return {
        "wall s": wall,
        "leg s": result["seconds"],
        "harness s": wall - result["seconds"],
        "peak MiB": result["peak_pss_mb"],
        **stages,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = [one_round() for _ in range(parser.parse_args().rounds)]
    table = Table("figure", "min", "median", "max", "bound", title=f"{len(rounds)} rounds")
    for name in rounds[0]:
        values = [each[name] for each in rounds]
        shown = (min(values), statistics.median(values), max(values))
        bound = f"{BOUNDS[name]:.0f}" if name in BOUNDS else ""
        table.add_row(name, *(f"{value:.2f}" for value in shown), bound)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
