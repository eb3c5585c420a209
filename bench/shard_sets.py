"""Test sets for bench_shards.py: what tests really take, and what a history says that they take."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

from exacthead.shards import durations
from exacthead.shards.nodeid import file_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

NOISE = 0.5
UNKNOWN = 0.2
# A suite of fewer tests is nothing to divide, and drift may leave nothing known of it.
FEWEST = 20
REMOVED = 0.1
SYNTHETIC = ("lognormal", "pareto", "giant test", "big module")
_MODULES, _TESTS = 60, 10
# So many draws make a prior.
_DRAWS = 40
# The oracle's histogram has this many bins for each factor of e.
_BINS = 8


@dataclass(frozen=True)
class Prior:
    """Distributions that an oracle knows, as histograms of logs: bin -> how many and their sum."""

    factors: Mapping[int, tuple[int, float]]
    scales: Mapping[int, tuple[int, float]]


@dataclass(frozen=True)
class Tests:
    """A set of tests.

    Attributes:
        seconds: node id -> what it really takes, in collection order.
        prior: how the scales of files and the factors of tests within files are distributed.
    """

    seconds: Mapping[str, float]
    prior: Prior


@dataclass(frozen=True)
class Drifted:
    """A history of a set: what it says, and what an oracle makes of it."""

    history: durations.Durations
    ideal: Mapping[str, float]


def own(path: Path) -> Iterator[tuple[str, Tests]]:
    """The larger suites of this repository's history, by the first two folders of their paths."""
    suites: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for nodeid, times in durations.read(path).seconds.items():
        suites["/".join(nodeid.split("/")[:2])][nodeid] = max(times[-1], 0.001)
    for name, seconds in suites.items():
        if len(seconds) < FEWEST:
            continue
        logs: defaultdict[str, list[float]] = defaultdict(list)
        for nodeid, time in seconds.items():
            logs[file_of(nodeid)].append(math.log(time))
        scales = {file: math.exp(fmean(each)) for file, each in logs.items()}
        factors = [time / scales[file_of(nodeid)] for nodeid, time in seconds.items()]
        yield name, Tests(seconds, Prior(_histogram(factors), _histogram(scales.values())))


def synthetic(kind: str, seed: int) -> Tests:
    """About 600 tests in 60 modules, heavy-tailed between modules and inside them.

    Args:
        kind: ``lognormal``; ``pareto`` (exponent 1.5); ``giant test``: one takes about 30 % of what
            all others take; ``big module``: one of 200 tests takes two thirds of what all others
            take.
        seed: of the random numbers.
    """
    return Tests(_draw(kind, f"{seed}")[0], _prior(kind))


@cache
def _prior(kind: str) -> Prior:
    # From other draws: an oracle knows how tests are drawn, and not what was drawn.
    factors: list[float] = []
    scales: list[float] = []
    for number in range(_DRAWS):
        seconds, files = _draw(kind, f"prior {number}")
        scales += files.values()
        factors += [time / files[file_of(nodeid)] for nodeid, time in seconds.items()]
    return Prior(_histogram(factors), _histogram(scales))


def _draw(kind: str, seed: str) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of tests, and the scales of their files."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311 - nothing secret
    seconds: dict[str, float] = {}
    scales: dict[str, float] = {}
    where = chance.randrange(_MODULES)
    for module in range(_MODULES):
        file = f"unit/part{module % 7}/test_{module:02}.py"
        scales[file] = math.exp(chance.gauss(-1, 0.8))
        big = kind == "big module" and module == where
        for test in range(200 if big else 1 + int(chance.expovariate(1 / _TESTS))):
            factor = chance.paretovariate(1.5) if kind == "pareto" else math.exp(chance.gauss(0, 1))
            seconds[f"{file}::test_{test:03}"] = scales[file] * factor
    file = list(scales)[where]
    if kind == "giant test":
        name = next(each for each in seconds if file_of(each) == file)
        rest = sum(time for each, time in seconds.items() if each != name)
        seconds[name] = 0.3 * math.exp(chance.gauss(0, 0.3)) * rest
    if kind == "big module":
        inside = [each for each in seconds if file_of(each) == file]
        rest = sum(time for each, time in seconds.items() if file_of(each) != file)
        stretch = 2 / 3 * rest / sum(seconds[each] for each in inside)
        scales[file] *= stretch
        for each in inside:
            seconds[each] *= stretch
    # A history keeps milliseconds; what is shorter is none of its business.
    return {nodeid: max(round(time, 3), 0.001) for nodeid, time in seconds.items()}, scales


def fresh(tests: Tests, _seed: int) -> Drifted:
    """The last three runs took exactly what the next will take."""
    exact = {nodeid: (time,) * 3 for nodeid, time in tests.seconds.items()}
    return Drifted(durations.Durations(exact), tests.seconds)


def stale(tests: Tests, seed: int) -> Drifted:
    """One old measurement of each test, wrong by a log-normal factor; no test came or went."""
    return _drift(tests, seed, unknown=0.0, removed=0.0)


def drift(tests: Tests, seed: int) -> Drifted:
    """Stale, and 20 % of the tests are new, and a tenth as many as all were removed."""
    return _drift(tests, seed, unknown=UNKNOWN, removed=REMOVED)


def _drift(tests: Tests, seed: int, *, unknown: float, removed: float) -> Drifted:
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    recorded = {}
    for nodeid, time in tests.seconds.items():
        wrong = time * math.exp(chance.gauss(0, NOISE))
        if chance.random() >= unknown:
            recorded[nodeid] = max(round(wrong, 3), 0.001)
    gone = {
        f"{nodeid}_that_was_here": time
        for nodeid, time in recorded.items()
        if chance.random() < removed
    }
    history = {nodeid: (time,) for nodeid, time in {**recorded, **gone}.items()}
    return Drifted(durations.Durations(history), oracle(tests, recorded))


def oracle(tests: Tests, recorded: Mapping[str, float]) -> dict[str, float]:
    """The ideal estimates: nobody who sees the same records can expect to be nearer.

    It is the posterior mean of who knows the distributions of files' scales, of the factors within
    files and of the noise, but not which file has which scale or which test has which factor. An
    unknown test gets the mean factor times its file's expected scale.
    """
    factors, scales = tests.prior.factors, tests.prior.scales
    files: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in tests.seconds:
        files[file_of(nodeid)].append(nodeid)
    mean = sum(total for _, total in factors.values()) / sum(count for count, _ in factors.values())
    seen = _Seen(factors)
    estimates = {}
    for inside in files.values():
        logs = {n: math.log(recorded[n]) for n in inside if n in recorded}
        likely = {
            place: math.log(count) + sum(seen.likely(log - place / _BINS) for log in logs.values())
            for place, (count, _) in scales.items()
        }
        most = max(likely.values())
        weights = {place: math.exp(value - most) for place, value in likely.items()}
        total = sum(weights.values())
        for nodeid in inside:
            estimates[nodeid] = (
                sum(
                    weight
                    * math.exp(place / _BINS)
                    * (seen.mean(logs[nodeid] - place / _BINS) if nodeid in logs else mean)
                    for place, weight in weights.items()
                )
                / total
            )
    return estimates


class _Seen:
    """What the log of a measured factor tells: how likely it is, and the true factor's mean."""

    def __init__(self, factors: Mapping[int, tuple[int, float]]) -> None:
        self._factors = factors
        self._known: dict[int, tuple[float, float]] = {}

    def likely(self, log: float) -> float:
        """The log of its likelihood, but for a constant."""
        return self._at(log)[0]

    def mean(self, log: float) -> float:
        """The posterior mean of the factor."""
        return self._at(log)[1]

    def _at(self, log: float) -> tuple[float, float]:
        place = round(4 * _BINS * log)
        if place not in self._known:
            logs = {
                each: -0.5 * ((place / 4 - each) / _BINS / NOISE) ** 2 for each in self._factors
            }
            most = max(logs.values())
            near = {each: math.exp(value - most) for each, value in logs.items()}
            weight = sum(near[each] * count for each, (count, _) in self._factors.items())
            times = sum(near[each] * time for each, (_, time) in self._factors.items())
            self._known[place] = most + math.log(weight), times / weight
        return self._known[place]


def _histogram(values: Iterable[float]) -> dict[int, tuple[int, float]]:
    """Bin of the log -> how many values and their sum."""
    bins: defaultdict[int, list[float]] = defaultdict(list)
    for value in values:
        bins[round(_BINS * math.log(value))].append(value)
    return {place: (len(each), sum(each)) for place, each in bins.items()}
