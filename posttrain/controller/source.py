"""Rollouts by a Gym agent, as a single controller takes them."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from posttrain.controller.failures import GroupDataError, GroupInfrastructureError
from posttrain.controller.words import Finished
from posttrain.environment.call import LateError, session
from posttrain.errors import DataError, StackError
from posttrain.rollout.collect import ask, request_body
from posttrain.rollout.conversation import to_turns_sample

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import aiohttp

    from posttrain.controller.words import Reservation
    from posttrain.data import Row
    from posttrain.rollout.collect import Agent
    from posttrain.sample import Sample


class Reader(Protocol):
    """How a Gym agent's answers become rollouts. A rollout has the id of its row."""

    def request(self, body: dict[str, Any], sample_id: str) -> dict[str, Any]:
        """What the agent is sent instead of ``body``."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        """To be held while a rollout is under way."""

    async def read(
        self, rollout: int, sample_id: str, row: int, answer: Mapping[str, Any], arrived: float
    ) -> Finished:
        """Make a rollout of an answer.

        Args:
            rollout: its number in the group.
            sample_id: its id.
            row: index of the dataset row.
            answer: of the agent's ``/run``.
            arrived: when the answer did, by ``time.monotonic``.

        Raises:
            StackError: no rollout can be made of it.
        """

    async def retire(self, sample_ids: Sequence[str], *, counted: bool = True) -> None:
        """Let go of what is kept for these rollouts, whether they were read or not.

        Args:
            sample_ids: the rollouts.
            counted: whether the metrics of the step are about them.

        Raises:
            StackError: something is still kept; the next call lets go of that too.
        """

    def take_metrics(self) -> Mapping[str, float | str]:
        """Metrics of what was read since the last call."""

    async def between_steps(self) -> None:
        """Called after each step."""

    async def close(self) -> None:
        """Called once, when nothing is under way any more."""


class AnswerReader:
    """Takes the tokens that are in the answer itself; keeps nothing."""

    def request(self, body: dict[str, Any], sample_id: str) -> dict[str, Any]:  # noqa: ARG002
        """The body as it is."""
        return body

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Free: the ledger bounds how many are in flight."""
        return nullcontext()

    async def read(
        self,
        rollout: int,
        sample_id: str,  # noqa: ARG002
        row: int,
        answer: Mapping[str, Any],
        arrived: float,  # noqa: ARG002
    ) -> Finished:
        """Read the answer's own tokens: see ``to_turns_sample``."""
        return Finished(rollout, to_turns_sample(row, answer))

    async def retire(self, sample_ids: Sequence[str], *, counted: bool = True) -> None:
        """Nothing is kept."""

    def take_metrics(self) -> Mapping[str, float | str]:
        """None of its own."""
        return {}

    async def between_steps(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to close."""


class GymSource:
    """The ``RolloutSource`` of a Gym agent.

    An answer that does not come fails its group for reasons of infrastructure, one that is no
    rollout for reasons of data.

    Args:
        agent: where rows are sent.
        reader: what is made of the answers.
    """

    def __init__(self, agent: Agent, reader: Reader) -> None:
        self._agent = agent
        self._reader = reader
        self._validations = count()

    async def run(self, group: Reservation) -> AsyncGenerator[Finished, None]:
        """See ``RolloutSource.run``."""
        async with session() as client:
            calls = [
                asyncio.create_task(self._roll_out(client, group, rollout))
                for rollout in range(len(group.ids))
            ]
            try:
                for call in asyncio.as_completed(calls):
                    yield await call
            finally:
                await _cancelled(calls)

    async def _roll_out(
        self, client: aiohttp.ClientSession, group: Reservation, rollout: int
    ) -> Finished:
        row, sample_id = group.prompt.row, group.ids[rollout]
        try:
            body = request_body(row, rollout, group.prompt.seed)
        except DataError as error:
            raise GroupDataError.of(group, error) from error
        async with self._reader.slot():
            try:
                answer, arrived = await self._ask(client, row, body, sample_id)
            except StackError as error:
                raise GroupInfrastructureError.of(group, error) from error
            try:
                return await self._reader.read(rollout, sample_id, row.index, answer, arrived)
            except StackError as error:
                raise GroupDataError.of(group, error) from error

    async def _ask(
        self, client: aiohttp.ClientSession, row: Row, body: dict[str, Any], sample_id: str
    ) -> tuple[dict[str, Any], float]:
        body = self._reader.request(body, sample_id)
        try:
            answer = await ask(client, self._agent, row.index, body)
        except LateError as error:
            raise error.blaming(await asyncio.to_thread(self._agent.silent)) from None
        return answer, time.monotonic()

    async def committed(self, group: Reservation) -> None:
        """See ``RolloutSource.committed``."""
        await self._reader.retire(group.ids)

    async def abandoned(self, group: Reservation) -> None:
        """See ``RolloutSource.abandoned``."""
        await self._reader.retire(group.ids)

    async def validate(self, rows: Sequence[Row], seed: str) -> list[Sample]:
        """See ``RolloutSource.validate``."""
        number, slots = next(self._validations), asyncio.Semaphore(self._agent.concurrency)
        ids = [f"validation-{number}-{place}" for place in range(len(rows))]

        async def roll_out(client: aiohttp.ClientSession, row: Row, sample_id: str) -> Sample:
            async with slots, self._reader.slot():
                body = request_body(row, 0, seed)
                answer, arrived = await self._ask(client, row, body, sample_id)
                finished = await self._reader.read(0, sample_id, row.index, answer, arrived)
            if finished.sample is None:
                raise StackError(
                    f"row {row.index}: a rollout to validate with",
                    f"a placeholder: {finished.cause}",
                    "look for the cause in docs/controller.md and in the logs",
                )
            return finished.sample

        async with session() as client:
            pairs = zip(rows, ids, strict=True)
            calls = [asyncio.create_task(roll_out(client, row, it)) for row, it in pairs]
            try:
                samples = list(await asyncio.gather(*calls))
            except BaseException:
                await _cancelled(calls)
                # Why it failed says more than that something could not be let go of after that.
                with suppress(StackError):
                    await self._reader.retire(ids, counted=False)
                raise
        await self._reader.retire(ids, counted=False)
        return samples

    async def between_steps(self) -> None:
        """See ``RolloutSource.between_steps``."""
        await self._reader.between_steps()

    def take_metrics(self) -> Mapping[str, float | str]:
        """See ``RolloutSource.take_metrics``."""
        return self._reader.take_metrics()

    async def close(self) -> None:
        """See ``RolloutSource.close``."""
        await self._reader.close()

    def watch(self) -> None:
        """See ``RolloutSource.watch``."""
        self._agent.watch()


async def _cancelled(calls: Sequence[asyncio.Task[Any]]) -> None:
    """Have calls end that are not over yet."""
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
