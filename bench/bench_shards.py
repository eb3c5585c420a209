"""Shards: how even the division is, against pytest-split and hash sharding, in one run.

    uv pip install pytest-split==0.11.0     (beside the packages of the worker `unit`)
    PYTHONPATH=ci:. python bench/bench_shards.py [--seeds N] [--first N] [--shards 2,4,8,16]

Every number is a makespan over the lower bound max(total / n, longest test), the mean over seeds;
`own` sets are the suites of ci/durations.json, whose seeds differ in the noise only. Peers are
called through their library's own functions, in two modes:

- same groups: a group of our plan is one item to them, whose duration is the sum of what their own
  rules give to its tests (an unknown test counts as the mean of all known ones);
- native: every test is an item, so that they may be evener, and tear modules apart.

`ideal` is longest-first with the same grouping rule on the estimates of an oracle that knows each
file's scale, the distribution of the factors in it and the noise. `cut` is the share of modules
that our plan cuts, `torn` the share that pytest-split's least_duration spreads over several shards.

The targets: fresh at most 1.05; under drift at most 1.02 times ideal; with work stealing at most
1.05, or under drift at most 1.02 times ideal where even that is above 1.05; no peer better in any
cell under the same grouping. A target that is missed is printed, and the exit code is 1. With few
seeds the luck of single draws decides: `±` is the standard error of the difference beside it. What
the planner does is chosen on other seeds (`--first 10000` and up) than those it is judged by.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from pytest_split.algorithms import Algorithms

from bench import shard_sets
from exacthead.shards.balance import balance
from exacthead.shards.divide import plan_shards
from exacthead.shards.estimate import estimate
from exacthead.shards.nodeid import file_of
from exacthead.shards.stealing import wall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from exacthead.shards.balance import Balanced
    from exacthead.shards.estimate import Estimates

FRESH, DRIFT, STEALING = 1.05, 1.02, 1.05
PEERS = ("least_duration", "duration_based_chunks", "hash")
# Shards and processes of each, for the part about work stealing.
STEALERS = ((1, 2), (1, 4), (1, 8), (1, 16), (2, 2), (4, 4))
HISTORIES = {"fresh": shard_sets.fresh, "stale": shard_sets.stale, "drift": shard_sets.drift}

Shards = list[list[str]]


@dataclass(frozen=True)
class Item:
    """What pytest-split sees of a test or of a group."""

    nodeid: str

    def __str__(self) -> str:
        return self.nodeid


@dataclass
class Cell:
    """One line of the table: planner -> its ratio for each seed."""

    ratios: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def mean(self, name: str) -> float:
        """The mean over all seeds."""
        return fmean(self.ratios[name])

    def error(self, name: str, other: str) -> float:
        """The standard error of the mean difference between two planners on the same seeds."""
        pairs = zip(self.ratios[name], self.ratios[other], strict=True)
        differences = [a - b for a, b in pairs]
        return stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0


def peer(
    name: str, durations: Mapping[str, int], names: Sequence[str], shards: int, salt: int
) -> Shards:
    """The names that a peer puts into each shard; hashes are salted, or they were one draw only."""
    if name == "hash":
        found: Shards = [[] for _ in range(shards)]
        for each in names:
            found[int(hashlib.sha256(f"{salt} {each}".encode()).hexdigest(), 16) % shards].append(
                each
            )
        return found
    algorithm: Callable[..., Iterable[Any]] = Algorithms[name].value
    items = [Item(each) for each in names]
    groups = algorithm(shards, items, dict(durations))
    return [[item.nodeid for item in group.selected] for group in groups]


@dataclass(frozen=True)
class Case:
    """A set with a history, and what each planner makes of it.

    Attributes:
        seconds: what tests really take.
        ours: the planner's own estimates.
        ideal: the oracle's.
        known: the last measurement of each known test, which is what peers go by; in whole
            microseconds, so that no rounding of a sum breaks a tie that ours does not break.
        mean: what an unknown test counts for peers.
        seed: of this case.
    """

    seconds: Mapping[str, float]
    ours: Estimates
    ideal: Estimates
    known: Mapping[str, int]
    mean: int
    seed: int


def make_case(tests: shard_sets.Tests, drifted: shard_sets.Drifted, seed: int) -> Case:
    """Estimate a set; what plan_shards would divide is checked to be what is divided here."""
    nodeids = list(tests.seconds)
    history = drifted.history
    ours = estimate(nodeids, {n: history.seconds[n] for n in nodeids if n in history.seconds})
    planned = [shard.groups for shard in plan_shards(nodeids, history, 4).shards]
    assert planned == groups_of(balance(ours, 4, 1))
    micros = {n: max(round(1e6 * drifted.ideal[n]), 1) for n in nodeids}
    known = {n: round(1e6 * history.seconds[n][-1]) for n in nodeids if n in history.seconds}
    return Case(
        seconds=tests.seconds,
        ours=ours,
        ideal=replace(ours, micros=micros, surprises={}, spread={}),
        known=known,
        mean=round(fmean(known.values())),
        seed=seed,
    )


def groups_of(balanced: Balanced) -> list[tuple[tuple[str, ...], ...]]:
    """The node ids of each shard's groups."""
    return [tuple(group.nodeids for group in shard) for shard in balanced.shards]


def measure(cell: Cell, case: Case, shards: int) -> None:
    """Add one seed's ratios to a cell."""
    seconds, nodeids = case.seconds, list(case.seconds)
    bound = max(math.fsum(seconds.values()) / shards, *seconds.values())

    def add(name: str, division: Iterable[Iterable[str]]) -> None:
        end = max(math.fsum(seconds[n] for n in shard) for shard in division)
        cell.ratios[name].append(end / bound)

    ours = groups_of(balance(case.ours, shards, 1))
    add("ours", ([n for group in shard for n in group] for shard in ours))
    ideal = groups_of(balance(case.ideal, shards, 1))
    add("ideal", ([n for group in shard for n in group] for shard in ideal))

    groups = {group[0]: group for shard in ours for group in shard}
    sums = {name: sum(case.known.get(n, case.mean) for n in g) for name, g in groups.items()}
    # In collection order, as pytest would give them.
    names = [n for n in nodeids if n in groups]
    for name in PEERS:
        division = peer(name, sums, names, shards, case.seed)
        add(name, ([n for g in shard for n in groups[g]] for shard in division))
        native = peer(name, case.known, nodeids, shards, case.seed)
        add(f"native {name}", native)
        if name == "least_duration":
            cell.ratios["torn"].append(_spread(native))
    parts = Counter(file_of(name) for name in groups)
    cell.ratios["cut"].append(sum(count > 1 for count in parts.values()) / len(parts))


def _spread(division: Shards) -> float:
    """The share of modules that are in several shards."""
    homes: defaultdict[str, set[int]] = defaultdict(set)
    for number, shard in enumerate(division):
        for nodeid in shard:
            homes[file_of(nodeid)].add(number)
    return sum(len(each) > 1 for each in homes.values()) / len(homes)


def steal(cell: Cell, case: Case, shards: int, processes: int) -> None:
    """Add one seed's ratios to a cell: processes take group after group, in their true times."""
    seconds = case.seconds
    bound = max(math.fsum(seconds.values()) / (shards * processes), *seconds.values())
    for name, estimates in (("ours", case.ours), ("ideal", case.ideal)):
        ends = [
            wall((round(1e6 * math.fsum(seconds[n] for n in group)) for group in shard), processes)
            for shard in groups_of(balance(estimates, shards, processes))
        ]
        cell.ratios[name].append(max(ends) / 1e6 / bound)


def sets(history: Path, seed: int) -> Iterable[tuple[str, shard_sets.Tests]]:
    """All test sets of one seed; those of the repository are the same for each."""
    yield from ((f"own {name}", tests) for name, tests in shard_sets.own(history))
    yield from ((kind, shard_sets.synthetic(kind, seed)) for kind in shard_sets.SYNTHETIC)


def main() -> None:
    """Print the tables; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--shards", default="2,4,8,16")
    parser.add_argument("--history", type=Path, default=Path("ci/durations.json"))
    options = parser.parse_args()
    counts = [int(each) for each in options.shards.split(",")]

    cells: defaultdict[tuple[str, str, int], Cell] = defaultdict(Cell)
    stolen: defaultdict[tuple[str, str, int, int], Cell] = defaultdict(Cell)
    for seed in range(options.first, options.first + options.seeds):
        for name, tests in sets(options.history, seed):
            for kind, age in HISTORIES.items():
                case = make_case(tests, age(tests, seed), seed)
                for count in counts:
                    measure(cells[kind, name, count], case, count)
                for pair in STEALERS:
                    steal(stolen[(kind, name, *pair)], case, *pair)

    missed = show_cells(cells, options.seeds) + show_stealing(stolen)
    for line in missed:
        print(f"MISSED: {line}")
    print(f"{len(missed)} targets missed" if missed else "every target is met")
    sys.exit(bool(missed))


def show_cells(cells: Mapping[tuple[str, str, int], Cell], seeds: int) -> list[str]:
    """Print the main table; what missed its target."""
    missed = []
    print(f"makespan / max(total / n, longest), means of {seeds} seeds")
    print(
        f"{'history':<8}{'set':<20}{'n':>3} |{'ours':>7}{'ideal':>7}{'/ideal':>7}{'± ':>7}"
        f"| same groups:{'least':>7}{'± ':>7}{'chunks':>7}{'hash':>7}"
        f"| native:{'least':>7}{'chunks':>7}{'hash':>7} |{'cut':>6}{'torn':>6}"
    )
    for (kind, name, count), cell in sorted(cells.items(), key=lambda each: each[0][0] != "fresh"):
        ours, ideal = cell.mean("ours"), cell.mean("ideal")
        same = {each: cell.mean(each) for each in PEERS}
        native = [cell.mean(f"native {each}") for each in PEERS]
        print(
            f"{kind:<8}{name:<20}{count:>3} |{ours:7.3f}{ideal:7.3f}{ours / ideal:7.3f}"
            f"{cell.error('ours', 'ideal'):7.3f}|{'':13}{same[PEERS[0]]:7.3f}"
            f"{cell.error('ours', PEERS[0]):7.3f}{same[PEERS[1]]:7.3f}{same[PEERS[2]]:7.3f}"
            f"|{'':8}{native[0]:7.3f}{native[1]:7.3f}{native[2]:7.3f} |"
            f"{cell.mean('cut'):6.2f}{cell.mean('torn'):6.2f}"
        )
        where = f"{kind}, {name}, n = {count}"
        if kind == "fresh" and ours > FRESH:
            missed.append(f"{where}: {ours:.3f} is more than {FRESH}")
        if kind == "drift" and ours > DRIFT * ideal:
            missed.append(f"{where}: {ours / ideal:.3f} times ideal is more than {DRIFT}")
        missed += [
            f"{where}: {each} is better, {value:.4f} < {ours:.4f}"
            f" (standard error {cell.error('ours', each):.4f})"
            for each, value in same.items()
            if value < ours
        ]
    return missed


def show_stealing(stolen: Mapping[tuple[str, str, int, int], Cell]) -> list[str]:
    """Print the table about work stealing; what missed its target."""
    missed = []
    print("\nwith work stealing: ours (times ideal), shards x processes")
    print(f"{'history':<8}{'set':<20}" + "".join(f"{s:>9}x{p:<5}" for s, p in STEALERS))
    for kind in HISTORIES:
        for name in dict.fromkeys(key[1] for key in stolen):
            line = f"{kind:<8}{name:<20}"
            for pair in STEALERS:
                cell = stolen[(kind, name, *pair)]
                ours, ideal = cell.mean("ours"), cell.mean("ideal")
                line += f"{ours:7.3f} ({ours / ideal:.3f})"[:15]
                where = f"{kind}, {name}, {pair[0]} shards of {pair[1]} processes"
                # Where a history says little, what the oracle makes of it is all there is to get.
                if ours > STEALING and (kind == "fresh" or ours > DRIFT * ideal):
                    missed.append(f"{where}: {ours:.3f} is more than {STEALING}")
            print(line)
    return missed


if __name__ == "__main__":
    main()
