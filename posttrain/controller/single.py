"""The single controller: generation, rollout and training as pumps on one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from posttrain.controller.commit import Committer
from posttrain.controller.failures import Budgets
from posttrain.controller.generation import GenerationPump, prompts_in_order
from posttrain.controller.ledger import Ledger, Limits
from posttrain.controller.record import recording
from posttrain.controller.rollout import RolloutPump
from posttrain.controller.rows import FIELDS, PARTITION
from posttrain.controller.shared import Shared
from posttrain.controller.threads import in_thread
from posttrain.controller.trainer import TrainingPump
from posttrain.dataplane import PlaneTimeoutError
from posttrain.errors import StackError
from posttrain.rollout.collect import WATCH_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.config import SingleRecipe
    from posttrain.controller.learner import Learner
    from posttrain.controller.record import Record
    from posttrain.controller.watchdog import Watchdog
    from posttrain.controller.words import RolloutSource
    from posttrain.data import Row
    from posttrain.dataplane import DataPlane
    from posttrain.dataset import Prompts
    from posttrain.metrics.writer import MetricsWriter


@dataclass(frozen=True)
class SingleController:
    """What a run needs, all of it ready, policy and engines holding the same weights.

    Attributes:
        recipe: the recipe.
        learner: takes the optimizer steps and refits the engines.
        source: of the rollouts.
        plane: where their rows wait to be trained on.
        prompts: what is rolled out and trained on.
        validation_rows: what is rolled out after a refit.
        watchdog: ends a run that gets nowhere.
    """

    recipe: SingleRecipe
    learner: Learner
    source: RolloutSource
    plane: DataPlane
    prompts: Prompts
    validation_rows: Sequence[Row]
    watchdog: Watchdog

    def run(self, writer: MetricsWriter, samples_file: Path) -> None:
        """Take every step of the recipe, writing its metrics and samples as soon as it is done.

        Raises:
            StackError: whatever made a step not a proven one; the steps before it are written.
        """
        stages, steps = self.learner.stages, self.recipe.run.steps
        with recording(writer, samples_file, stages, steps) as record:
            asyncio.run(self.take_steps(record))

    async def take_steps(self, record: Record) -> None:
        """The same on an event loop that runs already."""
        self.plane.register(PARTITION, FIELDS)
        await in_thread("reset", self.learner.generation.reset_prefix_caches)
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._pump(tasks, record)
        except BaseExceptionGroup as errors:
            error = _first(errors)
            if isinstance(error, StackError):
                # A process that died explains what broke with it; it takes the system a moment to
                # tell.
                await asyncio.sleep(WATCH_S)
                self.source.watch()
                # One that is late explains nothing.
                with suppress(PlaneTimeoutError):
                    await in_thread("served", self.plane.served)
            raise error from None
        finally:
            await self.source.close()

    async def _pump(self, tasks: asyncio.TaskGroup, record: Record) -> None:
        shared = self._shared()
        stream = prompts_in_order(self.prompts, self.recipe.run.seed)
        generation, rollout, training = (
            self.watchdog.pulse(name) for name in ("generation", "rollout", "training")
        )
        others = [
            GenerationPump(shared, stream, tasks, generation).run(),
            RolloutPump(shared, rollout).run(),
            self._watch(),
            self.watchdog.guard(),
        ]
        running = [tasks.create_task(each) for each in others]
        trainer = TrainingPump(shared, self.learner, self.validation_rows, self.prompts, training)
        await trainer.run(record)
        for task in (*running, *shared.generating.values()):
            task.cancel()

    def _shared(self) -> Shared:
        own, rollouts = self.recipe.controller, self.recipe.rollouts
        ledger = Ledger(
            Limits(
                per_prompt=rollouts.per_prompt,
                per_step=self.prompts.per_step,
                rollouts=rollouts.concurrency,
                groups=own.groups_in_flight,
                staleness=own.staleness,
                steps=self.recipe.run.steps,
            )
        )
        return Shared(
            ledger=ledger,
            source=self.source,
            plane=self.plane,
            committer=Committer(self.plane, ledger),
            budgets=Budgets(own.budgets.model_dump()),
        )

    async def _watch(self) -> NoReturn:
        while True:
            self.source.watch()
            await asyncio.sleep(WATCH_S)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended the run: it came first, and what came with it is of the ending."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
