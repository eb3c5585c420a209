"""Scenarios: what groups may take, if each test is longer or shorter than it is estimated.

A scenario gives every test a log-normal factor. The factors of one test over all scenarios are the
same for every test of its uncertainty, only in another order: each of 32 equal parts of the
distribution once (McKay, Beckman, Conover, "A comparison of three methods for selecting values of
input variables", Technometrics 21, 1979). The order comes from the node id alone, so that it is the
same on every host and stays when other tests come or go.
"""

from __future__ import annotations

import hashlib
import math
from functools import cache
from operator import add
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.shards.group import Group

# As many as a digest has bytes to order them by.
SCENARIOS = 32
# Decimals of an uncertainty: tests of nearly the same share their factors.
_DIGITS = 3


def scenarios(group: Group, micros: Mapping[str, int], spread: Mapping[str, float]) -> list[int]:
    """The group's time in each scenario, in microseconds.

    Args:
        group: with at least one test.
        micros: node id -> what is expected, the median of what is possible.
        spread: node id -> the standard deviation of the log of its time.
    """
    total = [0] * SCENARIOS
    for nodeid in group.nodeids:
        factors, expected = _factors(round(spread[nodeid], _DIGITS)), micros[nodeid]
        times = [int(expected * factors[place]) for place in _order(nodeid)]
        total = list(map(add, total, times))
    return total


@cache
def _factors(spread: float) -> tuple[float, ...]:
    """The middle of each part of the distribution, smallest first."""
    normal = NormalDist()
    places = ((number + 0.5) / SCENARIOS for number in range(SCENARIOS))
    return tuple(math.exp(spread * normal.inv_cdf(place)) for place in places)


def _order(nodeid: str) -> list[int]:
    digest = hashlib.blake2b(nodeid.encode(errors="surrogatepass"), digest_size=SCENARIOS).digest()
    return sorted(range(SCENARIOS), key=digest.__getitem__)
