"""Estimates: what each test will take, from noisy, old and missing measurements.

The model: the logarithm of a test's time is the suite's mean plus an effect of its file plus an
effect of the test itself; what is measured adds noise. The variances of the two effects come from
the analysis of variance of the unbalanced one-way random model (Searle, Casella, McCulloch,
*Variance Components*, 1992, chapter 3), and the best linear prediction shrinks towards the mean
(Robinson, "That BLUP is a good thing", Statistical Science 6, 1991)::

    file mean  m = suite + between / (between + (within + noise) / tests) * (file average - suite)
    test       x = m + within / (within + noise) * (measured - m)

A test is moved by at most one standard deviation of the noise: a test that really is far out looks
like noise to the model (limited translation: Efron and Morris, "Limiting the risk of Bayes and
empirical Bayes estimators", JASA 67, 1972). One that dominates the suite is no test like those of
its file; it shrinks by the same weight towards where dominating begins. So it is never planned as a
small one, and yet one that is measured twice as long is planned as less than twice as long.

What a test may really take is log-normal about its estimate, with what is then left of the
variances: noise * within / (within + noise) of a test that is known, within of one that is not, and
between as well where even its file is new.

The noise is estimated too. Measurements of one test that disagree give the noise of a run. How old
they are nobody knows, but a history that misses tests is old: times and tests change together, so
the drift's variance grows with the share of unknown tests. A fresh history whose measurements agree
is thus taken as it is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING

from exacthead.shards.nodeid import file_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A test without any relative in the history.
DEFAULT_S = 1.0
# Starting and reporting a test costs about this much, whatever its own time; a plan also has to
# spread tests that took 0.000 s.
LEAST_S = 0.001
# Variance of the log of a time in a history that misses a share of 1 of all tests. With 20 %
# unknown tests it is 0.25, a log-normal noise of 0.5.
DRIFT = 1.25
# The part of the known tests that take less than what an unknown one may well take.
LONG = 0.98
# Up to this noise sums of a few tests are about right.
SURE = 0.1
# How far a measurement is moved, in standard deviations of the noise.
FURTHEST = 1.0
# A test dominates that takes this part of what all known ones take, and this many times their mean.
# Measured by bench/bench_shards.py.
DOMINATING, TIMES_MEAN = 0.08, 4.0


@dataclass(frozen=True)
class Estimates:
    """What tests will take.

    Attributes:
        micros: node id, in collection order -> whole microseconds, at least 1,000. Whole numbers,
            so that sums and ties are the same on every host.
        surprises: unknown test -> by how many microseconds more it may well take: up to what all
            but the longest 2 % of the known tests take.
        by_file: how many unknown tests got the median of their file.
        by_suite: how many got the median of the suite.
        by_default: how many got the default of 1 s, since nothing is recorded.
        spread: test -> the standard deviation of the log of its time about the estimate; empty
            when estimates are as good as measurements.
        dominating: the tests that are most of a shard by themselves, if shards are many.
        noise: the standard deviation of the log of a single measurement, as assumed.
        sure: whether that is small because measurements agree, and not because there is only one
            of each test.
    """

    micros: Mapping[str, int]
    surprises: Mapping[str, int]
    spread: Mapping[str, float]
    dominating: frozenset[str]
    by_file: int
    by_suite: int
    by_default: int
    noise: float
    sure: bool


def estimate(nodeids: Sequence[str], recorded: Mapping[str, Sequence[float]]) -> Estimates:
    """Estimate every test.

    Args:
        nodeids: the collected tests, each once.
        recorded: test -> its measurements in seconds, for the tests that have any.
    """
    logs = {
        nodeid: [math.log(max(time, LEAST_S)) for time in recorded[nodeid]]
        for nodeid in nodeids
        if nodeid in recorded
    }
    unknown = [nodeid for nodeid in nodeids if nodeid not in recorded]
    run = _run_variance(logs)
    drift = DRIFT * len(unknown) / len(nodeids) if nodeids else 0.0
    noises = {nodeid: run / len(each) + drift for nodeid, each in logs.items()}
    middles = {nodeid: median(each) for nodeid, each in logs.items()}
    shrunk = shrink(middles, noises)
    known = {nodeid: math.exp(value) for nodeid, value in shrunk.values.items()}
    by_file: defaultdict[str, list[float]] = defaultdict(list)
    for nodeid, seconds in known.items():
        by_file[file_of(nodeid)].append(seconds)
    medians = {file: median(values) for file, values in by_file.items()}
    of_suite = median(known.values()) if known else DEFAULT_S
    guesses = {nodeid: medians.get(file_of(nodeid), of_suite) for nodeid in unknown}
    relatives = sum(file_of(nodeid) in medians for nodeid in unknown)
    strangers = len(unknown) - relatives
    everything = {**guesses, **known}
    micros = {n: max(round(1e6 * everything[n]), round(1e6 * LEAST_S)) for n in nodeids}
    long = sorted(micros[n] for n in known)[int(LONG * len(known))] if known else 0
    return Estimates(
        micros=micros,
        surprises={n: long - micros[n] for n in unknown if micros[n] < long},
        spread={n: shrunk.left(n, noises.get(n)) for n in nodeids} if run + drift else {},
        dominating=shrunk.dominating,
        by_file=relatives,
        by_suite=strangers if known else 0,
        by_default=0 if known else strangers,
        noise=math.sqrt(run + drift),
        sure=any(len(each) > 1 for each in logs.values()) and math.sqrt(run + drift) <= SURE,
    )


@dataclass(frozen=True)
class Shrunk:
    """Predictions and the model behind them.

    Attributes:
        values: node id -> the predicted log of a test's time.
        within: the variance of tests around their file's mean.
        between: the variance of files' means around the suite's.
        dominating: the tests that dominate the suite.
    """

    values: Mapping[str, float]
    within: float = 0.0
    between: float = 0.0
    dominating: frozenset[str] = frozenset()

    def left(self, nodeid: str, noise: float | None) -> float:
        """The standard deviation of what is not known of a test.

        Args:
            nodeid: the test.
            noise: the variance of its measurement; None without one.
        """
        if noise is not None:
            total = self.within + noise
            return math.sqrt(noise * self.within / total) if total else 0.0
        related = file_of(nodeid) in self._files
        return math.sqrt(self.within if related else self.within + self.between)

    @cached_property
    def _files(self) -> set[str]:
        return {file_of(nodeid) for nodeid in self.values}


def shrink(values: Mapping[str, float], noises: Mapping[str, float]) -> Shrunk:
    """Predict the true log of each test's time.

    Args:
        values: node id -> the log of what was measured.
        noises: node id -> the variance of that; 0 leaves the value as it is.
    """
    if not values or not any(noises.values()):
        return Shrunk(values)
    files: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in values:
        files[file_of(nodeid)].append(nodeid)
    averages = {file: fmean(values[n] for n in tests) for file, tests in files.items()}
    sizes = {file: len(tests) for file, tests in files.items()}
    spread, between = _variances(values, averages, sizes)
    within = max(spread - fmean(noises.values()), 0.0)
    suite = fmean(values.values())
    total = math.fsum(map(math.exp, values.values()))
    edge = math.log(max(DOMINATING, TIMES_MEAN / len(values)) * total)
    dominating = frozenset(nodeid for nodeid, value in values.items() if value > edge)
    result = {}
    for file, tests in files.items():
        weight = between / (between + spread / sizes[file]) if between else 0.0
        middle = suite + weight * (averages[file] - suite)
        for nodeid in tests:
            noise = noises[nodeid]
            away = (edge if nodeid in dominating else middle) - values[nodeid]
            move = noise / (within + noise) * away if noise else 0.0
            limit = FURTHEST * math.sqrt(noise)
            result[nodeid] = values[nodeid] + min(max(move, -limit), limit)
    return Shrunk(result, within, between, dominating)


def _variances(
    values: Mapping[str, float], averages: Mapping[str, float], sizes: Mapping[str, int]
) -> tuple[float, float]:
    """Variance of values around their file's mean, and of the files' means around the suite's."""
    count, suite = len(values), fmean(values.values())
    inner = math.fsum((value - averages[file_of(n)]) ** 2 for n, value in values.items())
    outer = math.fsum(size * (averages[file] - suite) ** 2 for file, size in sizes.items())
    total = inner + outer
    if count == len(sizes) or len(sizes) == 1:
        # One test a file, or one file: the two effects cannot be told apart.
        return total / max(count - 1, 1), 0.0
    spread = inner / (count - len(sizes))
    freedom = len(sizes) - 1
    typical = (count - sum(size**2 for size in sizes.values()) / count) / freedom
    return spread, max((outer / freedom - spread) / typical, 0.0)


def _run_variance(logs: Mapping[str, Sequence[float]]) -> float:
    """How much measurements of one test differ: each test counts by its time.

    The times of tiny tests differ most, and matter least.
    """
    total = weights = 0.0
    for each in logs.values():
        if len(each) > 1:
            mean = fmean(each)
            weight = math.exp(mean)
            total += weight * math.fsum((value - mean) ** 2 for value in each) / (len(each) - 1)
            weights += weight
    return total / weights if weights else 0.0
