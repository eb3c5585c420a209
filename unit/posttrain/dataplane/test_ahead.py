"""What a client of TransferQueue does ahead of its puts and behind them."""

from __future__ import annotations

import asyncio
from itertools import chain, count
from typing import Any

import pytest

from posttrain.dataplane.indexes import IndexPool
from posttrain.dataplane.notices import Notices


class Controller:
    """Hands indexes out and takes notices, when it is let."""

    def __init__(self) -> None:
        self.numbers = count()
        self.asked: list[int] = []
        self.told: list[tuple[str, list[int], set[str]]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.broken: Exception | None = None

    async def fetch(self, wanted: int) -> list[int]:
        self.asked.append(wanted)
        await self.open.wait()
        if self.broken:
            raise self.broken
        return [next(self.numbers) for _ in range(wanted)]

    async def tell(self, partition: str, indexes: list[int], fields: dict[str, Any]) -> None:
        await self.open.wait()
        if self.broken:
            raise self.broken
        self.told.append((partition, indexes, set(fields)))


def test_every_index_is_taken_once_and_the_next_ones_come_before_they_are_needed() -> None:
    async def main() -> None:
        controller = Controller()
        pool = IndexPool(controller.fetch, ahead=8)
        assert await pool.take(3) == [0, 1, 2]
        assert controller.asked == [8]
        assert await pool.take(2) == [3, 4]  # three are left, less than half
        controller.open.clear()
        await asyncio.sleep(0)
        assert controller.asked == [8, 8]
        assert await asyncio.wait_for(pool.take(3), 1) == [5, 6, 7]  # nobody waits for those
        controller.open.set()
        many = await asyncio.gather(*(pool.take(n) for n in (5, 1, 30, 4)))
        assert sorted(chain.from_iterable(many)) == list(range(8, 48))

    asyncio.run(main())


def test_whoever_gives_up_costs_others_nothing() -> None:
    async def main() -> None:
        controller = Controller()
        controller.open.clear()
        pool = IndexPool(controller.fetch, ahead=4)
        first, second = (asyncio.create_task(pool.take(2)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        controller.open.set()
        assert await second == [0, 1]
        assert controller.asked[0] == 4

    asyncio.run(main())


def test_what_the_controller_refuses_reaches_who_needs_it_and_is_asked_again() -> None:
    async def main() -> None:
        controller = Controller()
        pool = IndexPool(controller.fetch, ahead=2)
        controller.broken = RuntimeError("no indexes")
        with pytest.raises(RuntimeError, match="no indexes"):
            await pool.take(1)
        controller.broken = None
        assert await pool.take(1) == [0]

    asyncio.run(main())


def test_notices_gather_while_one_is_under_way() -> None:
    async def main() -> None:
        controller = Controller()
        controller.open.clear()
        notices = Notices(controller.tell)
        for index in range(5):
            await notices.add("p", [index], ["a", "b"])
            await asyncio.sleep(0)
        await notices.add("p", [5], ["a"])
        waiting = asyncio.create_task(notices.told())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        controller.open.set()
        await waiting
        assert controller.told[0] == ("p", [0], {"a", "b"})
        rest = sorted(controller.told[1:], key=lambda told: len(told[1]))
        assert rest == [("p", [5], {"a"}), ("p", [1, 2, 3, 4], {"a", "b"})]
        await notices.told()  # nothing is left to wait for

    asyncio.run(main())


def test_a_notice_that_fails_is_raised_where_it_is_waited_for_and_sent_again() -> None:
    async def main() -> None:
        controller = Controller()
        controller.broken = RuntimeError("the controller is gone")
        notices = Notices(controller.tell)
        await notices.add("p", [1], ["a"])
        with pytest.raises(RuntimeError, match="the controller is gone"):
            await notices.told()
        assert controller.told == []
        controller.broken = None
        await notices.told()
        assert controller.told == [("p", [1], {"a"})]

    asyncio.run(main())
