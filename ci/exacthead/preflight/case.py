"""Case: what one session is about to do, as the checks look at it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.lint.sources import Sources
from exacthead.preflight.answers import Answer, Asker, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.config import Harness
    from exacthead.head import Head
    from exacthead.images.where import Wanted
    from exacthead.selection import Selection
    from exacthead.tables import Job, Leg, Runner, Suite
    from exacthead.workers.store import Store


@dataclass(frozen=True)
class LegCase:
    """One selected leg with its job."""

    job_name: str
    job: Job
    name: str
    leg: Leg

    @property
    def id(self) -> str:
        """The id of its item."""
        return f"{self.job_name}.{self.name}"

    def worker_of(self, kind: str) -> tuple[str, str]:
        """The role that plays one of the recipe's kinds of process, and its worker; empty ones."""
        role = self.leg.kinds.get(kind, kind)
        return role, self.leg.workers.get(role, "")


@dataclass(frozen=True)
class Case:
    """A selection, and where it is to run.

    Attributes:
        harness: the declarations.
        selection: what is to run.
        head: of the checkout.
        runner_name: what the runner is called.
        runner: its resources.
        flavour: of the workers.
        store: where workers are.
        wanted: which images items run in; None outside of images.
        elsewhere: whether another machine runs the items, and this one only plans.
        environ: the harness's own environment.
        say: is told what takes long.
    """

    harness: Harness
    selection: Selection
    head: Head
    runner_name: str
    runner: Runner
    flavour: str
    store: Store
    wanted: Wanted | None = None
    elsewhere: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    say: Callable[[str], None] = lambda _: None

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The selected suites."""
        return {name: self.harness.suites[name] for name in self.selection.suites}

    @cached_property
    def legs(self) -> tuple[LegCase, ...]:
        """The selected legs."""
        return tuple(
            LegCase(name, self.harness.jobs[name], leg, self.harness.jobs[name].legs[leg])
            for name, legs in self.selection.legs.items()
            for leg in legs
        )

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """The jobs that have selected legs."""
        return {name: self.harness.jobs[name] for name in self.selection.legs}

    @cached_property
    def workers(self) -> tuple[str, ...]:
        """All workers that are used, sorted."""
        return tuple(sorted({*self._of_suites, *self._of_legs}))

    @cached_property
    def workers_here(self) -> tuple[str, ...]:
        """Those that are needed on this machine itself: suites are collected here anyway."""
        return tuple(sorted(self._of_suites)) if self.wanted else self.workers

    @cached_property
    def sources(self) -> Sources:
        """The files of the checkout."""
        return Sources.of(self.harness)

    @property
    def answers(self) -> dict[str, Answer]:
        """What the stack says of the recipe of each leg that has one, by the leg's id."""
        return self._told[0]

    @property
    def unanswered(self) -> HarnessError | None:
        """Why nobody could be asked; then there are no answers."""
        return self._told[1]

    @cached_property
    def _told(self) -> tuple[dict[str, Answer], HarnessError | None]:
        asked = {
            leg.id: Question(leg.job.recipe, leg.job.entry, leg.job.overrides_of(leg.name))
            for leg in self.legs
            if leg.job.recipe
        }
        if not asked or self.harness.recipes is None:
            return {}, None
        asker = Asker(self.harness, self.harness.recipes, self.store, self.head, self.say)
        try:
            return dict(zip(asked, asker.ask(list(asked.values())), strict=True)), None
        except HarnessError as error:
            return {}, error

    @property
    def _of_suites(self) -> set[str]:
        return {
            worker
            for suite in self.suites.values()
            for worker in (suite.worker, *suite.roles.values())
        }

    @property
    def _of_legs(self) -> set[str]:
        return {worker for leg in self.legs for worker in leg.leg.workers.values()}
