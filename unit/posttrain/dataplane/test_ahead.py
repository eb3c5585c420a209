"""What a client of TransferQueue does ahead of its puts and behind them."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import chain, count
from typing import Any

import pytest

from posttrain.dataplane.indexes import IndexPool
from posttrain.dataplane.notices import Notices

SOON_S, NOT_S = 20.0, 0.1


class Controller:
    """Hands indexes out and takes notices, when it is let."""

    def __init__(self) -> None:
        self.numbers = count()
        self.asked: list[int] = []
        self.told: list[tuple[str, list[int], set[str]]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.begun = asyncio.Event()
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

    async def tell(self, partition: str, indexes: list[int], fields: dict[str, Any]) -> None:
        self.begun.set()
        await self.open.wait()
        if self.broken:
            raise self.broken
        self.told.append((partition, indexes, set(fields)))


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


def test_rows_of_a_while_are_one_notice_and_those_that_come_meanwhile_the_next() -> None:
    async def main() -> None:
        controller = Controller()
        notices = Notices(asyncio.get_running_loop(), controller.tell, gather_s=NOT_S)
        with ThreadPoolExecutor(4) as threads:
            for index in range(5):
                threads.submit(notices.add, "p", [index], ["a", "b"]).result()
        await asyncio.sleep(0)
        assert controller.told == []
        controller.open.clear()
        await asyncio.wait_for(controller.begun.wait(), SOON_S)
        notices.add("p", [5], ["a", "b"])
        notices.add("p", [6], ["a"])
        waiting = asyncio.create_task(notices.told())
        await asyncio.sleep(2 * NOT_S)
        assert not waiting.done()
        controller.open.set()
        await waiting
        assert controller.told[0] == ("p", [0, 1, 2, 3, 4], {"a", "b"})
        rest = sorted(controller.told[1:])
        assert rest == [("p", [5], {"a", "b"}), ("p", [6], {"a"})]
        await notices.told()  # nothing is left to wait for

    asyncio.run(main())


def test_whoever_has_to_know_does_not_wait_for_others() -> None:
    async def main() -> None:
        controller = Controller()
        notices = Notices(asyncio.get_running_loop(), controller.tell, gather_s=3600)
        notices.add("p", [1], ["a"])
        await asyncio.wait_for(notices.told(), SOON_S)
        assert controller.told == [("p", [1], {"a"})]

    asyncio.run(main())


def test_a_notice_that_fails_is_raised_where_it_is_waited_for_and_sent_again() -> None:
    async def main() -> None:
        controller = Controller()
        controller.broken = RuntimeError("the controller is gone")
        notices = Notices(asyncio.get_running_loop(), controller.tell, gather_s=0)
        notices.add("p", [1], ["a"])
        await asyncio.sleep(NOT_S)  # nobody waits for it: it is kept
        with pytest.raises(RuntimeError, match="the controller is gone"):
            await notices.told()
        assert controller.told == []
        controller.broken = None
        notices.add("p", [2], ["a"])
        await notices.told()
        assert controller.told == [("p", [1, 2], {"a"})]

    asyncio.run(main())
