"""Opening a session: select, refuse what cannot work, plan; the same way for every command."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from exacthead.equip import open_store, resolve_all
from exacthead.head import read_head
from exacthead.images.needs import settle
from exacthead.images.where import in_images, placed, used
from exacthead.judgement import judgement
from exacthead.leg_items import leg_items
from exacthead.machine import this_runner
from exacthead.pace import Pace
from exacthead.plan import make_plan, worker_names
from exacthead.preflight.case import Case
from exacthead.preflight.checks import preflight
from exacthead.preflight.problem import refuse
from exacthead.selection import Asked, Selection, select
from exacthead.session import Session
from exacthead.suite_plan import Planning, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.head import Head
    from exacthead.images.where import Wanted
    from exacthead.plan import Item
    from exacthead.preflight.problem import Problem
    from exacthead.suite_plan import Planned
    from exacthead.tables import Runner
    from exacthead.wish import Wish
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Store


@dataclass(frozen=True)
class Opening:
    """What a command asks for: what runs, how, and where.

    Attributes:
        harness: the declarations.
        asked: which suites and legs.
        wish: how suites are run.
        console: where progress goes.
        flavour: of the workers.
        runner_name: a runner of harness.toml; empty for this machine.
        wanted: which images items run in; None outside of images.
        base: the revision that faults are compared with; empty for none.
        pace: how many items run at once.
        notify: the address that the verdict is posted to; empty for none.
        required: whether every item counts as required, whatever harness.toml says.
        shown: whether the plan is only shown, and no item of it starts.
    """

    harness: Harness
    asked: Asked
    wish: Wish
    console: Console
    flavour: str = "cpu"
    runner_name: str = ""
    wanted: Wanted | None = None
    base: str = ""
    pace: Pace = field(default_factory=Pace)
    notify: str = ""
    required: bool = False
    shown: bool = False
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", open_store(self.harness.root))

    @cached_property
    def runner(self) -> tuple[str, Runner]:
        """The runner that is asked for with its name, or the machine's own resources."""
        name = self.runner_name
        return (name, self.harness.runner(name)) if name else ("this machine", this_runner())

    @property
    def elsewhere(self) -> bool:
        """Whether the items are another machine's to run: what is here says nothing of them."""
        return self.shown and bool(self.runner_name)

    @cached_property
    def selection(self) -> Selection:
        """What is to run, wherever that is."""
        return select(self.harness, self.asked)

    @cached_property
    def head(self) -> Head:
        """The head of the checkout, read once."""
        return read_head(self.harness.root)

    @cached_property
    def case(self) -> Case:
        """The same as preflight looks at it."""
        name, runner = self.runner
        return Case(
            harness=self.harness,
            selection=self.selection,
            head=self.head,
            runner_name=name,
            runner=runner,
            flavour=self.flavour,
            store=self.store,
            wanted=self.wanted,
            elsewhere=self.elsewhere,
            say=self.say,
        )

    def problems(self) -> list[Problem]:
        """All that preflight finds; a wrong name of a runner is an error at once."""
        return preflight(self.case)

    def say(self, line: str) -> None:
        """One line of progress."""
        self.console.out(f"exacthead: {line}")

    def legs(self) -> tuple[Item, ...]:
        """The items of the selected legs."""
        return tuple(
            item
            for job, legs in self.selection.legs.items()
            for item in leg_items(self.harness, job, legs)
        )

    def specs(self) -> dict[str, Spec]:
        """The specs of the workers that are needed on this machine itself."""
        return resolve_all(self.harness, self.case.workers_here, self.flavour)

    def all_specs(self) -> dict[str, Spec]:
        """The specs of all workers that are used, as this machine would build them."""
        return resolve_all(self.harness, self.case.workers, self.flavour)

    def planning(
        self, specs: dict[str, Spec], say: Callable[[str], None] | None = None
    ) -> Planning:
        """What planning the selected suites needs."""
        return Planning(
            harness=self.harness,
            specs=specs,
            store=self.store,
            runner=self.runner[1],
            wish=self.wish,
            say=say or self.say,
            head=self.head,
            again=self.selection.again,
            elsewhere=self.elsewhere,
            inside=self.wanted is not None,
        )


@contextmanager
def opened(opening: Opening) -> Iterator[Session]:
    """A session for what is asked: selected, refused or planned, its suites' workers ready.

    Which items there are is decided before any image is looked at.

    Raises:
        HarnessError: an unknown name, nothing is selected, or preflight's problems, all at once.
    """
    harness, selection = opening.harness, opening.selection
    name, runner = opening.runner
    refuse(opening.problems())
    known = judgement(harness.root, harness.root / "runs", name, opening.head, opening.base)
    specs = opening.specs()
    with ExitStack() as held:
        suites: Planned | None = None
        if selection.suites:
            suites = held.enter_context(planned(opening.planning(specs), selection.suites))
        legs = opening.legs()
        items = (*(suites.items if suites else ()), *(suites.behind(legs) if suites else legs))
        images = None
        if opening.wanted:
            running = [item for item in items if item.settled is None]
            images = held.enter_context(
                placed(
                    harness,
                    running,
                    opening.wanted,
                    flavour=opening.flavour,
                    runner=runner,
                    say=opening.say,
                )
            )
            specs = {**specs, **used(images, worker_names(running))}
            items, images = settle(harness, items, images, strict=opening.wish.strict)
        if opening.required:
            items = tuple(replace(item, required=not item.void) for item in items)
        plan = make_plan(
            opening.head,
            items,
            specs,
            runner=name,
            flavour=opening.flavour,
            invocation=invocation(),
            images=images.images if images else None,
        )
        session = Session(
            harness,
            plan,
            specs,
            opening.store,
            opening.console,
            harness.root / "runs",
            known,
            remarks=selection.notes,
            held=suites.workers if suites else None,
            logs=suites.logs if suites else {},
            base=opening.base,
            pace=opening.pace.on(runner, items, inside=images is not None),
            notify=opening.notify,
        )
        yield in_images(session, images)


def invocation() -> str:
    """How this was asked for, as one line of a shell."""
    return shlex.join(sys.argv[1:])
