"""The controller's own source over captured rollouts, in front of the real gate."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.capture.gate.identity import fresh_rollout_id
from posttrain.capture.reader import CapturedReader
from posttrain.config.token_capture import TokenCapture
from posttrain.controller.failures import GroupInfrastructureError
from posttrain.controller.source import GymSource
from posttrain.controller.words import Prompt, Reservation
from posttrain.environment.conversations import CONVERSATION_AGENT
from posttrain.errors import StackError
from posttrain.rollout.collect import Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from posttrain.data import Row

ON = TokenCapture(enabled=True, deadline_s=60.0, gate_memory_mb=1_000_000, turns=3)


def group(row: Row, size: int) -> Reservation:
    ids = tuple(fresh_rollout_id("group", place) for place in range(size))
    return Reservation("group", Prompt(0, row, "seed"), 0, ids, 3)


def run(bench: Any, do: Callable[[GymSource, CapturedReader], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        reader = CapturedReader(bench.gate, bench.store, ON, rollouts=2, say=print)
        agent = Agent(bench.gate.url(CONVERSATION_AGENT), CONVERSATION_AGENT, deadline_s=300.0)
        source = GymSource(agent, reader)
        try:
            return await do(source, reader)
        finally:
            await source.close()

    return asyncio.run(whole())


def test_a_group_is_read_counted_once_and_retired(bench: Any, conversation: Row) -> None:
    reservation = group(conversation, 5)

    async def do(source: GymSource, _: CapturedReader) -> Any:
        finished = [each async for each in source.run(reservation)]
        staged = {key for key in bench.store.staged() if key.startswith("group-")}
        metrics, again = source.take_metrics(), source.take_metrics()
        await source.committed(reservation)
        left = {key for key in bench.store.staged() if key.startswith("group-")}
        return finished, metrics, again, staged, left

    finished, metrics, again, staged, left = run(bench, do)
    assert sorted(each.rollout for each in finished) == list(range(5))
    assert all(len(each.sample.spans) == 2 and not each.cause for each in finished)
    assert {each.last_weight_version for each in finished} == {3}
    assert metrics["capture/rows"] == 5
    assert metrics["capture/token_in_rate"] == 1.0
    assert again["capture/rows"] == 0
    assert len(staged) == 10
    assert not left
    names = {path.name for path in bench.gate.folder.iterdir()}
    assert not [name for name in names if name.startswith(reservation.ids)]


def test_a_placeholder_reaches_the_controller_with_its_cause(bench: Any, conversation: Row) -> None:
    bench.store.broken = True

    async def do(source: GymSource, _: CapturedReader) -> Any:
        reservation = group(conversation, 2)
        finished = [each async for each in source.run(reservation)]
        await source.abandoned(reservation)
        return finished

    finished = run(bench, do)
    assert [(each.sample, each.cause) for each in finished] == [(None, "worker_capture_failed")] * 2


def test_an_abandoned_group_leaves_nothing_staged(bench: Any, conversation: Row) -> None:
    reservation = group(conversation, 2)
    hanging = reservation.ids[1]
    asked: list[tuple[str, str]] = []
    hung = threading.Event()

    def say(body: dict[str, Any]) -> str:
        asked.append((body["ng_capture"]["rollout_id"], body["ng_capture"]["mode"]))
        return "It is \\boxed{4}."

    def change(_: dict[str, Any]) -> Any:
        if asked[-1] != (hanging, "token_in"):
            return None
        hung.set()
        # Staged, but never answered.
        return asyncio.sleep(300)

    bench.engine.say, bench.engine.change = say, change

    async def do(source: GymSource, _: CapturedReader) -> Any:
        rollouts = source.run(reservation)
        first = await anext(rollouts)
        assert await asyncio.to_thread(hung.wait, 60)
        before = {key for key in bench.store.staged() if key.startswith(hanging)}
        await rollouts.aclose()
        await source.abandoned(reservation)
        return first, before

    first, before = run(bench, do)
    assert first.rollout == 0
    assert len(before) == 2
    assert not [key for key in bench.store.staged() if key.startswith(reservation.ids)]


def test_validation_is_captured_retired_and_in_no_metric(bench: Any, conversation: Row) -> None:
    async def do(source: GymSource, _: CapturedReader) -> Any:
        samples = await source.validate([conversation] * 2, "seed")
        return samples, source.take_metrics()

    samples, metrics = run(bench, do)
    assert [sample.reward for sample in samples] == [1.0, 1.0]
    assert metrics["capture/rows"] == 0
    assert not [key for key in bench.store.staged() if key.startswith("validation")]


def test_a_validation_that_is_a_placeholder_is_an_error(bench: Any, conversation: Row) -> None:
    bench.store.broken = True

    async def do(source: GymSource, _: CapturedReader) -> Any:
        await source.validate([conversation], "seed")

    with pytest.raises(StackError, match="worker_capture_failed"):
        run(bench, do)


def test_a_gate_that_has_grown_is_recycled_between_steps_and_not_before(
    own: Any, conversation: Row
) -> None:
    async def do(source: GymSource, reader: CapturedReader) -> Any:
        pids = [own.gate.pid]
        await source.between_steps()
        pids.append(own.gate.pid)
        reader._gate_memory_mb = 1
        rollouts = asyncio.create_task(everything(source))
        await asyncio.sleep(0)
        await source.between_steps()
        pids.append(own.gate.pid)
        return pids, await rollouts, await everything(source)

    async def everything(source: GymSource) -> list[Any]:
        return [each async for each in source.run(group(conversation, 3))]

    pids, during, after = run(own, do)
    assert pids[0] == pids[1] != pids[2]
    assert [each.cause for each in (*during, *after)] == [""] * 6


def test_a_dead_gate_fails_the_group_for_reasons_of_infrastructure(
    own: Any, conversation: Row
) -> None:
    own.gate.stop()

    async def do(source: GymSource, _: CapturedReader) -> Any:
        return [each async for each in source.run(group(conversation, 2))]

    with pytest.raises(GroupInfrastructureError):
        run(own, do)
