"""Durations: how many measurements of a test to keep, and what to make of them.

    PYTHONPATH=ci:. python bench/bench_durations.py [--tests N]

The error of each rule is the root of the mean squared difference of the logs of the rule's time and
the next true one, over tests that were measured in every run so far. A run is off by a log-normal
noise, some are five times too slow, and some tests change for good by a log-normal factor of 0.7.
All rules of a line see the same numbers. The chosen rule, the median of the last five, has to have
the lowest error on average over the lines, or one at most 2 % above it, or the exit code is 1.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from exacthead.shards.durations import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHOSEN = f"median of {KEPT}"
CHANGE = 0.7
SLOW = math.log(5)
NEAR = 1.02


@dataclass(frozen=True)
class World:
    """How times behave: noise of a run, share of slow runs, share of runs after a change."""

    noise: float
    slow: float
    changed: float


WORLDS = (World(0.1, 0, 0), World(0.2, 0.05, 0), World(0.2, 0.05, 0.02), World(0.4, 0.05, 0.02))


def smoothed(weight: float) -> Callable[[Sequence[float]], float]:
    """The exponentially weighted mean that gives ``weight`` to the newest."""

    def rule(logs: Sequence[float]) -> float:
        value = logs[0]
        for log in logs[1:]:
            value += weight * (log - value)
        return value

    return rule


RULES: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda logs: logs[-1],
    "median of 3": lambda logs: median(logs[-3:]),
    CHOSEN: lambda logs: median(logs[-KEPT:]),
    "median of 9": lambda logs: median(logs[-9:]),
    "mean of 5": lambda logs: fmean(logs[-5:]),
    "smoothed 0.3": smoothed(0.3),
    "smoothed 0.5": smoothed(0.5),
}


def errors(world: World, runs: int, tests: int) -> dict[str, float]:
    """Rule -> its error after so many runs."""
    chance = random.Random(f"{world} {runs}")  # noqa: S311 - nothing secret
    squares: dict[str, list[float]] = {name: [] for name in RULES}
    for _ in range(tests):
        true, logs = 0.0, []
        for _ in range(runs):
            logs.append(true + chance.gauss(0, world.noise))
            logs[-1] += SLOW * (chance.random() < world.slow)
            true += chance.gauss(0, CHANGE) * (chance.random() < world.changed)
        for name, rule in RULES.items():
            squares[name].append((rule(logs) - true) ** 2)
    return {name: math.sqrt(fmean(each)) for name, each in squares.items()}


def main() -> None:
    """Print the table; exit 1 when the chosen rule is beaten."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tests", type=int, default=5000)
    options = parser.parse_args()
    lines = []
    print(f"{'noise slow change runs':<24}" + "".join(f"{name:>13}" for name in RULES))
    for world in WORLDS:
        for runs in (1, 2, 3, 5, 10):
            lines.append(errors(world, runs, options.tests))
            where = f"{world.noise:<6g}{world.slow:<5g}{world.changed:<7g}{runs:<6}"
            print(where + "".join(f"{error:13.3f}" for error in lines[-1].values()))
    means = {name: fmean(line[name] for line in lines) for name in RULES}
    print(f"{'mean':<24}" + "".join(f"{error:13.3f}" for error in means.values()))
    if means[CHOSEN] > NEAR * min(means.values()):
        print(f"MISSED: {CHOSEN} is not the best")
        sys.exit(1)


if __name__ == "__main__":
    main()
