"""The training pump: whole groups are claimed, trained on once, and the engines refitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from posttrain.controller.failures import CommitError
from posttrain.controller.learner import validates, validation_seed
from posttrain.controller.ledger import Phase
from posttrain.controller.rows import FIELDS, PARTITION, decode
from posttrain.controller.threads import in_thread
from posttrain.rollout.convert import accuracy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.controller.learner import Learner
    from posttrain.controller.record import Record
    from posttrain.controller.rows import Committed
    from posttrain.controller.shared import Shared
    from posttrain.controller.watchdog import Pulse
    from posttrain.controller.words import Reservation
    from posttrain.data import Row
    from posttrain.dataset import Prompts
    from posttrain.training import Metrics

# Who claims rows of the partition, for the data plane.
CONSUMER = "trainer"
# A group and its rows, in the order of its rollouts.
Whole = tuple["Reservation", "list[Committed]"]


@dataclass
class Claims:
    """Rows that were claimed, until their group is whole.

    Attributes:
        ids: of the rows, by the name of their group, oldest claim first.
        taken: names of the groups that the step at hand is trained on.
    """

    ids: dict[str, set[str]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)


class TrainingPump:
    """Takes the run's steps.

    Args:
        shared: the run's parts.
        learner: takes an optimizer step, and refits.
        validation_rows: what is rolled out after a refit.
        prompts: the dataset, which knows how far it was read.
        pulse: the pump's.
    """

    def __init__(
        self,
        shared: Shared,
        learner: Learner,
        validation_rows: Sequence[Row],
        prompts: Prompts,
        pulse: Pulse,
    ) -> None:
        self._shared = shared
        self._learner = learner
        self._validation_rows = validation_rows
        self._prompts = prompts
        self._pulse = pulse
        self._claims = Claims()

    async def run(self, record: Record) -> None:
        """Take every step, recording each as soon as it is done.

        Raises:
            StackError: whatever made a step not a proven one; the steps before it are recorded.
        """
        recipe, stages = self._learner.recipe, self._learner.stages
        limits = recipe.timeouts
        whole = 2 * limits.train_s + limits.generate_s + limits.refit_s + limits.validate_s
        for step in range(1, recipe.run.steps + 1):
            async with stages.awaited("step", whole):
                async with stages.awaited("generation", limits.generate_s):
                    groups = await self._groups(step)
                metrics = await self._step(step, groups)
            rows = [row for _, group in groups for row in group]
            record.write(step, metrics, [row.line() for row in rows if row.sample is not None])
            with self._pulse.wait(f"the end of step {step}"):
                for group, _ in groups:
                    await self._clear(group)
                await self._shared.source.between_steps()

    async def _groups(self, step: int) -> list[Whole]:
        """The groups of a step: those that were committed first, in the order of their prompts."""
        ledger, wanted = self._shared.ledger, self._shared.ledger.limits.per_step
        groups: list[Whole] = []
        claims = self._claims
        claims.taken.clear()
        # A group may fail after its rows were claimed, in the last moment of its commit.
        claims.ids = {name: ids for name, ids in claims.ids.items() if ledger.owner(min(ids))}
        while len(groups) < wanted:
            with self._pulse.wait(f"{wanted - len(groups)} of {wanted} groups of step {step}"):
                group = await self._claim()
                rows = await self._read(group)
            self._claims.taken.add(group.group)
            if ledger.stale(group, _oldest(rows)):
                await self._drop(group)
            else:
                groups.append((group, rows))
        return sorted(groups, key=lambda it: it[0].prompt.number)

    async def _claim(self) -> Reservation:
        """Claim rows until a committed group is whole."""
        ledger, claims = self._shared.ledger, self._claims

        def waiting() -> list[Reservation]:
            committed = ledger.groups(Phase.COMMITTED)
            return [group for group in committed if group.group not in claims.taken]

        while True:
            await self._shared.bell.until(lambda: bool(waiting()))
            names = {group.group: group for group in waiting()}
            for name, ids in claims.ids.items():
                if name in names and len(ids) == len(names[name].ids):
                    del claims.ids[name]
                    return names[name]
            count = ledger.limits.per_prompt
            plane = self._shared.plane
            claim = partial(plane.claim, PARTITION, CONSUMER, count, FIELDS)
            found = await in_thread("claim", claim)
            if not found:
                raise CommitError(
                    f"the rows of {', '.join(names)} from partition {PARTITION!r}",
                    "none to claim, though all were committed",
                    "find out who clears or claims rows of the controller's partition",
                )
            for row in found:
                # A row that nobody owns is left of a group that failed.
                if (owner := ledger.owner(row)) is not None:
                    claims.ids.setdefault(owner.group, set()).add(row)

    async def _read(self, group: Reservation) -> list[Committed]:
        plane = self._shared.plane
        rows = await in_thread("get", partial(plane.get, PARTITION, group.ids, FIELDS))
        return [decode(row) for row in rows]

    async def _clear(self, group: Reservation) -> None:
        plane = self._shared.plane
        await in_thread("clear", partial(plane.clear, PARTITION, group.ids))

    async def _drop(self, group: Reservation) -> None:
        """Drop a group that is too old, wherever it stands."""
        shared = self._shared
        phase = shared.ledger.phase(group)
        shared.ledger.dropped(group, stale=True)
        shared.bell.ring()
        if phase is Phase.COMMITTED:
            self._claims.ids.pop(group.group, None)
            await self._clear(group)
        elif (task := shared.generating.get(group.group)) is not None:
            task.cancel()

    async def _step(self, step: int, groups: Sequence[Whole]) -> Metrics:
        """Update once, refit while generation goes on, validate; the step is the new version."""
        shared, learner = self._shared, self._learner
        recipe, stages, window = learner.recipe, learner.stages, shared.ledger.limits.staleness
        rows = [row for _, group in groups for row in group]
        pairs = [(row.sample, row.number) for row in rows if row.sample is not None]
        samples, numbers = [sample for sample, _ in pairs], [number for _, number in pairs]
        with self._pulse.wait(f"the optimizer step {step}"):
            metrics = await in_thread("train", partial(learner.train, samples, numbers, window))
        metrics["data/passes"] = self._prompts.passes
        # From now on an engine may serve it.
        shared.newest = step
        with self._pulse.wait(f"the refit to version {step}"):
            async with stages.awaited("refit", recipe.timeouts.refit_s):
                metrics |= await in_thread("refit", partial(learner.refit, step, "continue"))
        if validates(step, recipe.run.steps, recipe.data.validate_every):
            with self._pulse.wait(f"the validation of step {step}"):
                async with stages.awaited("validation", recipe.timeouts.validate_s):
                    seed = validation_seed(recipe.run.seed)
                    answers = await shared.source.validate(self._validation_rows, seed)
            metrics["validation/accuracy"] = accuracy(answers)
        with self._pulse.wait(f"version {step} to be announced"):
            await self._advance(step, groups)
        shared.ledger.counts.placeholders += len(rows) - len(pairs)
        metrics |= shared.ledger.take_counts().metrics() | await self._plane_metrics()
        return metrics | dict(shared.source.take_metrics())

    async def _plane_metrics(self) -> Metrics:
        """What the storage units say that they did, each by itself."""
        served = await in_thread("served", self._shared.plane.served)
        metrics: Metrics = {"dataplane/storage_units": len(served)}
        for number, (_, unit) in enumerate(sorted(served.items())):
            for name in ("puts", "gets", "rows"):
                metrics[f"dataplane/{number}/{name}"] = getattr(unit, name)
        return metrics

    async def _advance(self, step: int, groups: Sequence[Whole]) -> None:
        """Let the groups of the next version be admitted; those too old for it are dropped."""
        shared = self._shared
        if not shared.ledger.limits.staleness:
            # What validation left there would decide how the samples are computed, to the last
            # bit. Nothing else is in flight now; where it is, the order is not the same anyway.
            await in_thread("reset", self._learner.generation.reset_prefix_caches)
        behind = [step - 1 - _oldest(rows) for _, rows in groups]
        shared.ledger.trained([group for group, _ in groups], behind)
        stale = shared.ledger.advance(step)
        shared.bell.ring()
        for group in stale:
            await self._drop(group)


def _oldest(rows: Sequence[Committed]) -> int:
    """The version of the oldest weights behind a group that has at least one sample."""
    versions = [row.sample.weight_version for row in rows if row.sample is not None]
    return min(version for version in versions if version is not None)
