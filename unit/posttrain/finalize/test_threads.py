"""Threads for blocking calls: what comes back, how many at once, and when they end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import pytest

from posttrain.capture.finalize.threads import Threads

PATIENCE_S = 10.0


def named(name: str = "staging-") -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(name)}


def test_a_call_gives_its_result_and_what_it_raises_and_runs_elsewhere() -> None:
    threads = Threads(2)

    async def calls() -> None:
        assert await threads.call(divmod, 17, 5) == (3, 2)
        with pytest.raises(ZeroDivisionError):
            await threads.call(divmod, 17, 0)
        assert await threads.call(threading.get_ident) != threading.get_ident()

    asyncio.run(calls())


def test_as_many_calls_at_once_as_there_are_threads_and_no_more() -> None:
    threads, barrier, running = Threads(3), threading.Barrier(3), []

    def meet(number: int) -> int:
        running.append(number)
        barrier.wait(PATIENCE_S)
        return len(running)

    async def calls() -> list[int]:
        return await asyncio.gather(*(threads.call(meet, number) for number in range(6)))

    seen = asyncio.run(calls())
    assert sorted(running) == list(range(6))
    # Three met while the other three could not have begun, but for those that one meeting freed.
    assert min(seen) >= 3
    assert not barrier.broken


def test_whoever_gives_up_leaves_the_call_and_the_other_threads_as_they_are() -> None:
    threads, free, ended = Threads(2), threading.Event(), threading.Event()

    def hang() -> None:
        free.wait(PATIENCE_S)
        ended.set()

    async def calls() -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await threads.call(hang)
        found = await threads.call(len, "abc")
        assert not ended.is_set()
        free.set()
        # Its answer finds nobody, here or after the loop has ended.
        return found

    assert asyncio.run(calls()) == 3
    assert ended.wait(PATIENCE_S)
    assert asyncio.run(threads.call(len, "abcd")) == 4


def test_nothing_is_kept_of_a_call_that_is_over() -> None:
    class Large:
        alive = 0

        def __init__(self) -> None:
            Large.alive += 1

        def __del__(self) -> None:
            Large.alive -= 1

    threads = Threads(1)

    def make(_: Any) -> Large:
        return Large()

    asyncio.run(threads.call(make, Large()))
    # The thread has given the answer a moment before it lets go of the call.
    deadline = time.monotonic() + PATIENCE_S
    while Large.alive and time.monotonic() < deadline:
        time.sleep(0.001)
        gc.collect()
    assert Large.alive == 0


def test_the_threads_end_when_nobody_has_them_any_more() -> None:
    before = named()
    threads = Threads(4)
    assert named() == before
    asyncio.run(threads.call(int))
    begun = named() - before
    assert len(begun) == 4
    del threads
    gc.collect()
    for thread in begun:
        thread.join(PATIENCE_S)
    assert not [thread for thread in begun if thread.is_alive()]


def test_a_call_that_was_given_up_before_it_began_is_not_made() -> None:
    threads, free, made = Threads(1), threading.Event(), []

    async def calls() -> None:
        first = asyncio.create_task(threads.call(free.wait, PATIENCE_S))
        late = [asyncio.create_task(threads.call(made.append, number)) for number in range(5)]
        await asyncio.sleep(0.01)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        free.set()
        assert await first
        await threads.call(made.append, "next")

    asyncio.run(calls())
    assert made == ["next"]
