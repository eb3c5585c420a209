"""Send dataset rows through a Gym agent; every call has a deadline, every failure names its row."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from posttrain.data import check_agent
from posttrain.environment.call import LateError, post, session
from posttrain.environment.configure import AGENT
from posttrain.errors import DataError, StackError
from posttrain.rollout.convert import to_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import aiohttp

    from posttrain.data import Row
    from posttrain.sample import Sample

T = TypeVar("T")
# How often a process that died is looked for.
WATCH_S = 0.2


@dataclass(frozen=True)
class Agent:
    """A Gym agent, and the patience with it.

    Attributes:
        url: its base address.
        name: what a row's ``agent_ref`` must say.
        deadline_s: seconds that one rollout may take.
        concurrency: rollouts that may be under way at once.
        watch: called about five times a second while rollouts are under way; raises a
            :class:`~posttrain.errors.StackError` when a process that they need has died, which
            ends them at once instead of at the deadline.
        silent: called once after a rollout's deadline has passed, in another thread; returns the
            names of the processes behind the agent that do not answer, for the error.
        took: called with the seconds of each rollout that was answered.
    """

    url: str
    name: str = AGENT
    deadline_s: float = 30.0
    concurrency: int = 8
    watch: Callable[[], None] = lambda: None
    silent: Callable[[], Sequence[str]] = tuple
    took: Callable[[float], None] = lambda _: None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.deadline_s <= 0:
            msg = f"concurrency {self.concurrency} and deadline {self.deadline_s} must be positive"
            raise ValueError(msg)


def collect(
    agent: Agent, rows: Sequence[Row], samples_per_row: int = 1, *, seed: str = ""
) -> list[Sample]:
    """Roll out each row ``samples_per_row`` times, as :func:`collect_as`, into samples."""
    return collect_as(to_sample, agent, rows, samples_per_row, seed=seed)


def collect_as(
    read: Callable[[int, Mapping[str, Any]], T],
    agent: Agent,
    rows: Sequence[Row],
    samples_per_row: int = 1,
    *,
    seed: str = "",
) -> list[T]:
    """Roll out each row ``samples_per_row`` times.

    Args:
        read: makes of the agent's answer for a row (its index, the answer) what is returned; a
            :class:`~posttrain.errors.StackError` of it fails the rollout.
        agent: where the rows are sent.
        rows: the tasks.
        samples_per_row: rollouts of each.
        seed: what distinguishes this collection from others. Each rollout samples with a seed of
            its own that is derived from it, so that the same collection gives the same samples
            again, whatever the order in which they are computed.

    Returns:
        ``len(rows) * samples_per_row`` rollouts in the order of ``rows``, a row's together.

    Raises:
        DataError: a row is meant for another agent; nothing was sent.
        WorkerError: of the calls that failed, the one of the first row; or what ``watch`` raised.
    """
    if samples_per_row < 1:
        msg = f"{samples_per_row} samples per row"
        raise ValueError(msg)
    return asyncio.run(collect_async(read, agent, rows, samples_per_row, seed))


def rollout_seed(seed: str, row: int, rollout: int) -> int:
    """The seed of one rollout, in [0, 2**32), different for each but for accidents."""
    digest = hashlib.sha256(f"{seed}/{row}/{rollout}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


async def ask(
    client: aiohttp.ClientSession, agent: Agent, row: int, body: dict[str, Any]
) -> dict[str, Any]:
    """Have the agent roll out what ``request_body`` made, and return the answer.

    Raises:
        WorkerError: no answer, or none in time.
    """
    begun = time.monotonic()
    answer = await post(
        client,
        f"{agent.url}/run",
        body,
        asked=f"row {row}: a rollout",
        deadline_s=agent.deadline_s,
    )
    agent.took(time.monotonic() - begun)
    return answer


async def collect_async(
    read: Callable[[int, Mapping[str, Any]], T],
    agent: Agent,
    rows: Sequence[Row],
    samples_per_row: int = 1,
    seed: str = "",
) -> list[T]:
    """As :func:`collect_as`, on an event loop that runs already."""
    check_agent(rows, agent.name)
    slots = asyncio.Semaphore(agent.concurrency)
    failed: dict[tuple[int, int], StackError] = {}

    async def roll_out(place: int, rollout: int) -> T:
        async with slots:
            try:
                row = rows[place]
                answer = await ask(client, agent, row.index, request_body(row, rollout, seed))
                return read(row.index, answer)
            except StackError as error:
                failed[place, rollout] = error
                raise

    async def keep_watch() -> None:
        while True:
            agent.watch()
            await asyncio.sleep(WATCH_S)

    async with session() as client:
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(keep_watch())
                calls = [
                    group.create_task(roll_out(place, rollout))
                    for place in range(len(rows))
                    for rollout in range(samples_per_row)
                ]
                samples = [await call for call in calls]
                watcher.cancel()
        except BaseExceptionGroup as errors:
            if failed:
                # A process that died explains its broken calls better than they do; it takes the
                # system a moment to tell.
                await asyncio.sleep(WATCH_S)
                agent.watch()
            error = failed[min(failed)] if failed else _first(errors)
            if isinstance(error, LateError):
                error = error.blaming(await asyncio.to_thread(agent.silent))
            raise error from None
    return samples


def request_body(row: Row, rollout: int, seed: str) -> dict[str, Any]:
    """What ``/run`` is sent: the row, its place, and a seed by Gym's way to the engine.

    Raises:
        DataError: the row's own additions to the request are no JSON object.
    """
    params = row.raw["responses_create_params"]
    metadata = params.get("metadata") or {}
    extra = _extra_body(row, metadata)
    extra["seed"] = rollout_seed(seed, row.index, rollout)
    metadata = {**metadata, "extra_body": json.dumps(extra)}
    return {
        **row.raw,
        "responses_create_params": {**params, "metadata": metadata},
        "_ng_task_index": row.index,
        "_ng_rollout_index": rollout,
    }


def _extra_body(row: Row, metadata: dict[str, Any]) -> dict[str, Any]:
    """The request fields that the row itself adds, as the JSON text that Gym expects."""
    text = metadata.get("extra_body") or "{}"
    try:
        extra = json.loads(text)
    except (TypeError, ValueError):
        extra = None
    if not isinstance(extra, dict):
        raise DataError(
            f"row {row.index}: metadata.extra_body as the text of a JSON object",
            repr(text),
            "correct the row, or leave the key out",
        )
    return extra


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
