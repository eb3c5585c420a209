"""Rollouts by way of Gym's servers, at once or at a rate, with capture and without."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from bench.gate_stack import START_S, TURNS, processor_s
from posttrain.capture.reader import CapturedReader
from posttrain.config.token_capture import TokenCapture
from posttrain.controller.source import AnswerReader, GymSource
from posttrain.controller.words import Prompt, Reservation
from posttrain.data import Row
from posttrain.environment.conversations import CONVERSATION_AGENT
from posttrain.errors import StackError
from posttrain.rollout.collect import Agent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.gate_stack import Stack

GROUP = 8
CAPTURE, PLAIN = "with capture", "plain Gym"
QUESTION = "How many apples are there in twelve boxes of three dozen each? Think before you answer."
AGAIN = "Are you sure of it? Count once more, and then say nothing but the number that you found."


@dataclass
class Came:
    """What came of rollouts.

    Attributes:
        asked: rollouts.
        rows: of them, with the exact number of turns and generated tokens.
        placeholders: by cause.
        lost: by reason: neither a row nor a placeholder.
        seconds: from the first that was sent until the last was retired.
        finished: when each row was there, in seconds from the start.
        took: seconds from sending each rollout to its answer.
        most: rollouts in flight at once.
        processor: seconds of each process of the stack.
        metrics: of capture.
    """

    asked: int = 0
    rows: int = 0
    placeholders: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    finished: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    most: int = 0
    processor: dict[str, float] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rollouts a second."""
        return self.rows / self.seconds


class Side:
    """One way to make rollouts: the controller's own source and reader.

    Args:
        name: ``CAPTURE`` or ``PLAIN``.
        running: the stack.
        rollouts: in flight at once, at most, with capture.
        generated: tokens that every answer has.
    """

    def __init__(self, name: str, running: Stack, rollouts: int, generated: int) -> None:
        self.name = name
        self._stack = running
        self._completion = TURNS * generated
        self._groups = count()
        self._took: list[float] = []
        servers = running.gate if name == CAPTURE else running.plain
        self._servers = servers
        agent = Agent(
            servers.url(CONVERSATION_AGENT), CONVERSATION_AGENT, START_S, took=self._took.append
        )
        self._settings = TokenCapture(
            enabled=True, deadline_s=START_S, gate_memory_mb=1 << 20, turns=TURNS
        )
        self._reader = (
            CapturedReader(running.gate, running.store.store, self._settings, rollouts, print)
            if name == CAPTURE
            else AnswerReader()
        )
        self._source = GymSource(agent, self._reader)

    async def at_once(self, rollouts: int) -> Came:
        """Send all rollouts at the same time."""
        return await self._run([0.0] * (rollouts // GROUP))

    async def at_rate(self, rollouts: int, rate: float) -> Came:
        """Send so many rollouts a second, whether earlier ones are back or not.

        A group is sent at a random time in each interval in which one is due.
        """
        chance = random.Random(0)  # noqa: S311 - arrivals
        groups = range(rollouts // GROUP)
        return await self._run([(number + chance.random()) * GROUP / rate for number in groups])

    async def recycle(self, limit_mb: float) -> bool:
        """Between steps: restart the gate when it has more in memory; whether it did."""
        assert isinstance(self._reader, CapturedReader)
        before = self._stack.gate.pid
        self._reader._gate_memory_mb = limit_mb  # type: ignore[assignment]  # noqa: SLF001
        await self._source.between_steps()
        return self._stack.gate.pid != before

    async def close(self) -> None:
        """Close connections."""
        await self._source.close()

    async def _run(self, due: Sequence[float]) -> Came:
        """Send a group at each of these times, in seconds from now."""
        came = Came(asked=GROUP * len(due))
        self._took.clear()
        self._source.take_metrics()
        before = {name: processor_s(pid) for name, pid in self._stack.pids.items()}
        started = time.monotonic()
        in_flight = Counter[str]()
        async with asyncio.TaskGroup() as tasks:
            for when in due:
                await asyncio.sleep(started + when - time.monotonic())
                tasks.create_task(self._group(came, in_flight, started))
        came.seconds = time.monotonic() - started
        after = {name: processor_s(pid) for name, pid in self._stack.pids.items()}
        came.processor = {name: after[name] - before[name] for name in before}
        came.took = [*self._took]
        came.metrics = self._source.take_metrics()
        return came

    async def _group(self, came: Came, in_flight: Counter[str], started: float) -> None:
        reservation = self._reserve()
        in_flight["now"] += GROUP
        came.most = max(came.most, in_flight["now"])
        got = 0
        try:
            async for finished in self._source.run(reservation):
                got += 1
                in_flight["now"] -= 1
                if finished.sample is None:
                    came.placeholders[finished.cause] += 1
                    continue
                assert len(finished.sample.spans) == TURNS
                assert len(finished.sample.completion_ids) == self._completion
                came.rows += 1
                came.finished.append(time.monotonic() - started)
            await self._source.committed(reservation)
        except StackError as error:
            in_flight["now"] -= GROUP - got
            came.lost[f"{type(error).__name__}: {error.found}"[:200]] += GROUP - got

    def _reserve(self) -> Reservation:
        number = next(self._groups)
        raw = {
            "responses_create_params": {"input": [{"role": "user", "content": QUESTION}]},
            "follow_ups": [AGAIN],
            "expected_answer": "432",
            "agent_ref": {"type": "responses_api_agents", "name": CONVERSATION_AGENT},
        }
        ids = tuple(f"g{number:06d}-{rollout}" for rollout in range(GROUP))
        return Reservation(f"g{number:06d}", Prompt(number, Row(0, raw), str(number)), 0, ids, 0)
