"""Bisect: the few of many earlier tests that make a later one fail, by running ever fewer.

Delta debugging asks whether a part alone still fails, and pays for that with up to n * n questions.
Here the order is used: the shortest beginning of the order that still fails ends with a test that
is needed, which is found by halving; with that one held, the rest is asked the same way. For a test
that fails after every superset of what makes it fail, k culprits of n cost about k * log2(n)
questions, and no subset of the answer would do. Where tests also heal (a reset between two
poisons), what is found still fails, since nothing else is ever answered, and no single test of it
can be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")


def find_culprits(earlier: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A smallest part of ``earlier``, in its order, after which the test still fails.

    Args:
        earlier: what ran before, each once, in order; after all of it the test fails, and after
            nothing it passes: the caller has seen both.
        fails: runs a part, in order, then the test, and says whether the test failed. It is asked
            no part twice.

    Returns:
        A part for which ``fails`` has said yes, or ``earlier`` itself; without any one of its
        members it has said no.
    """
    known: dict[tuple[int, ...], bool] = {(): False, tuple(range(len(earlier))): True}

    def asked(indexes: Iterable[int]) -> bool:
        part = tuple(sorted(indexes))
        if part not in known:
            known[part] = fails(tuple(earlier[index] for index in part))
        return known[part]

    held: list[int] = []
    end = len(earlier)
    while not asked(held):
        # The test fails after held and the first `end`; it passes after held alone.
        passing, failing = 0, end
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if asked([*range(middle), *held]):
                failing = middle
            else:
                passing = middle
        end = failing - 1
        held.append(end)
    while spare := [each for each in held if asked({*held} - {each})][:1]:
        held.remove(spare[0])
    return tuple(earlier[index] for index in sorted(held))
