"""The commands that run items: from parsed arguments to a plan, from a plan to an exit code."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead import machine
from exacthead.equip import check_machine, open_store, resolve_all
from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.images.where import in_images, placed, used, wanted
from exacthead.judgement import judgement
from exacthead.plan import leg_items, make_plan, worker_names
from exacthead.session import Session

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.plan import Item
    from exacthead.tables import Runner


def functional(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run a job's legs."""
    name, runner = chosen_runner(harness, arguments.runner)
    items = leg_items(harness, arguments.job, arguments.leg)
    machine.check_runner(arguments.job, harness.job(arguments.job), name, runner)
    return _run(harness, items, (name, runner), arguments, console)


def reproduce(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run one item of an earlier run again: same head, keys, order, seed and environment."""
    from exacthead.reproduce import reproduce_item

    return reproduce_item(
        harness,
        Path(arguments.item),
        console,
        invocation=invocation(),
        until_fail=arguments.until_fail,
        bisect=arguments.bisect_order,
    )


def chosen_runner(harness: Harness, name: str | None) -> tuple[str, Runner]:
    """The runner that is asked for with its name, or the machine's own resources."""
    return (name, harness.runner(name)) if name else ("this machine", machine.this_runner())


def _run(
    harness: Harness,
    items: tuple[Item, ...],
    runner: tuple[str, Runner],
    arguments: Namespace,
    console: Console,
) -> int:
    if not items:
        raise HarnessError(
            f"run {arguments.command}", "nothing is selected", "declare a suite or a leg first"
        )
    asked = wanted(arguments)
    store = open_store(harness.root)
    names = worker_names(items)

    def say(line: str) -> None:
        console.out(f"exacthead: {line}")

    with ExitStack() as held:
        images = None
        if asked:
            images = held.enter_context(
                placed(harness, items, asked, flavour=arguments.flavour, runner=runner[1], say=say)
            )
        else:
            check_machine(harness, names, arguments.flavour, store)
        specs = used(images, names) or resolve_all(harness, names, arguments.flavour)
        head, runs = read_head(harness.root), harness.root / "runs"
        known = judgement(harness.root, runs, runner[0], head)
        plan = make_plan(
            head,
            items,
            specs,
            runner=runner[0],
            flavour=arguments.flavour,
            invocation=invocation(),
            images=images.images if images else None,
        )
        session = Session(
            harness, plan, specs, store, console, runs, known, notify=arguments.notify
        )
        return in_images(session, images).run()


def invocation() -> str:
    """How this was asked for, as one line of a shell."""
    return shlex.join(sys.argv[1:])
