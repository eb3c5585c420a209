"""Indexes of TransferQueue that a client fetches ahead of its puts."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import chain, count

import pytest

from posttrain.dataplane.indexes import IndexPool

SOON_S, NOT_S = 20.0, 0.1


class Controller:
    """Hands indexes out, when it is let."""

    def __init__(self) -> None:
        self.numbers = count()
        self.asked: list[int] = []
        self.held: list[tuple[int, Future[list[int]]]] | None = None
        self.broken: Exception | None = None

    def fetch(self, wanted: int) -> Future[list[int]]:
        self.asked.append(wanted)
        fetched: Future[list[int]] = Future()
        if self.broken:
            fetched.set_exception(self.broken)
        elif self.held is not None:
            self.held.append((wanted, fetched))
        else:
            self.hand_out(wanted, fetched)
        return fetched

    def hand_out(self, wanted: int, fetched: Future[list[int]]) -> None:
        fetched.set_result([next(self.numbers) for _ in range(wanted)])

    def let(self) -> None:
        held, self.held = self.held or [], None
        for wanted, fetched in held:
            self.hand_out(wanted, fetched)


def taken(pool: IndexPool, count: int) -> list[int]:
    taking = pool.take(count)
    assert taking.wait(SOON_S)
    return taking.result()


def test_every_index_is_taken_once_and_the_next_ones_come_before_they_are_needed() -> None:
    controller = Controller()
    pool = IndexPool(controller.fetch, ahead=8)
    assert taken(pool, 3) == [0, 1, 2]
    assert controller.asked == [8]
    controller.held = []
    assert taken(pool, 2) == [3, 4]  # three are left, less than half
    assert controller.asked == [8, 8]
    assert taken(pool, 3) == [5, 6, 7]  # nobody waits for those that are fetched
    controller.let()
    with ThreadPoolExecutor(8) as threads:
        many = [*threads.map(lambda number: taken(pool, number), [5, 1, 30, 4] * 25)]
    assert [len(each) for each in many] == [5, 1, 30, 4] * 25
    assert sorted(chain.from_iterable(many)) == list(range(8, 1008))


def test_whoever_gives_up_costs_others_nothing() -> None:
    controller = Controller()
    controller.held = []
    pool = IndexPool(controller.fetch, ahead=4)
    first, second = pool.take(2), pool.take(2)
    assert not first.wait(NOT_S)
    assert not second.wait(NOT_S)
    with pytest.raises(RuntimeError, match="not taken yet"):
        first.result()
    first.give_up()
    controller.let()
    assert second.wait(SOON_S)
    assert second.result() == [0, 1]
    assert controller.asked == [4]


def test_what_the_controller_refuses_reaches_who_needs_it_and_is_asked_again() -> None:
    controller = Controller()
    pool = IndexPool(controller.fetch, ahead=2)
    controller.broken = RuntimeError("no indexes")
    with pytest.raises(RuntimeError, match="no indexes"):
        pool.take(1).wait(SOON_S)
    controller.broken = None
    assert taken(pool, 1) == [0]


def test_a_fetch_that_cannot_begin_or_is_cancelled_is_not_waited_for() -> None:
    controller = Controller()
    pool = IndexPool(controller.fetch, ahead=2)
    controller.held = []
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(taken, pool, 1)
        end = time.monotonic() + SOON_S
        while not controller.held:
            assert time.monotonic() < end
        controller.held[0][1].cancel()
        assert isinstance(waiting.exception(SOON_S / 2), CancelledError)

    def closed(_: int) -> Future[list[int]]:
        raise CancelledError

    refused = IndexPool(closed, ahead=2).take(1)
    for _ in range(2):
        with pytest.raises(CancelledError):
            refused.wait(SOON_S)
