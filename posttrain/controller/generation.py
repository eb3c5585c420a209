"""The generation pump: prompts are reserved as the limits allow, and rolled out."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from posttrain.controller.failures import GroupError
from posttrain.controller.learner import training_seed
from posttrain.controller.rows import stamped
from posttrain.controller.shared import Arrived, Over
from posttrain.controller.words import Prompt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from posttrain.controller.shared import Shared
    from posttrain.controller.watchdog import Pulse
    from posttrain.controller.words import Reservation
    from posttrain.dataset import Prompts


def prompts_in_order(prompts: Prompts, seed: int) -> Iterator[Prompt]:
    """The dataset prompt by prompt, without end; each batch is taken when its first one is needed.

    Args:
        prompts: the dataset in batches.
        seed: the run's.

    Raises:
        RecipeError: more passes would have to begin than may.
    """
    number, batch = 0, 0
    while True:
        batch += 1
        for row in prompts.take():
            yield Prompt(number, row, training_seed(seed, batch))
            number += 1


class GenerationPump:
    """Reserves and starts groups; each is rolled out in a task of its own.

    Args:
        shared: the run's parts.
        prompts: what is rolled out, in order.
        tasks: where the groups' tasks belong.
        pulse: the pump's.
    """

    def __init__(
        self, shared: Shared, prompts: Iterator[Prompt], tasks: asyncio.TaskGroup, pulse: Pulse
    ) -> None:
        self._shared = shared
        self._prompts = prompts
        self._tasks = tasks
        self._pulse = pulse

    async def run(self) -> NoReturn:
        """Reserve groups for ever."""
        shared = self._shared
        while True:
            with self._pulse.wait("room for another group under the limits"):
                await shared.bell.until(shared.ledger.admits)
            group = shared.ledger.retry() or shared.ledger.reserve(next(self._prompts))
            task = self._tasks.create_task(self._roll_out(group), name=f"group {group.group}")
            shared.generating[group.group] = task

    async def _roll_out(self, group: Reservation) -> None:
        shared = self._shared
        try:
            async with aclosing(shared.source.run(group)) as rollouts:
                async for finished in rollouts:
                    self._pulse.beat()
                    arrived = stamped(finished, group.version, shared.newest)
                    shared.events.put_nowait(Arrived(group, arrived))
        except GroupError as error:
            shared.events.put_nowait(Over(group, error))
        except asyncio.CancelledError:
            # Dropped, or the run ends: nobody waits for the rest of it.
            await shared.tell(group, shared.source.abandoned(group))
            raise
        else:
            shared.events.put_nowait(Over(group))
        finally:
            del shared.generating[group.group]
