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
from exacthead.pace import pace
from exacthead.plan import leg_items, make_plan, worker_names
from exacthead.resume import unfinished
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

    if (arguments.item is None) == (arguments.resume is None):
        raise HarnessError("reproduce", "not one of RUN/ITEM and --resume RUN", "give one of them")
    if arguments.resume is None and (arguments.jobs != 1 or arguments.fail_fast):
        todo = "give --jobs and --fail-fast with --resume RUN"
        raise HarnessError("reproduce RUN/ITEM", "options for several items, and it is one", todo)
    if arguments.resume is not None:
        return _resume(harness, arguments, console)
    return reproduce_item(
        harness,
        Path(arguments.item),
        console,
        invocation=invocation(),
        until_fail=arguments.until_fail,
        bisect=arguments.bisect_order,
    )


def _resume(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run what has no verdict in a run; same plan, same folder."""
    if arguments.until_fail != 1 or arguments.bisect_order:
        todo = "give --until-fail and --bisect-order with RUN/ITEM"
        raise HarnessError("reproduce --resume", "it runs the rest of a run, once", todo)
    found = unfinished(harness.root, Path(arguments.resume))
    plan, store = found.plan, open_store(harness.root)
    names = sorted(plan.keys)
    check_machine(harness, names, plan.flavour, store)
    specs = resolve_all(harness, names, plan.flavour)
    found.check_specs(specs)
    runs = found.folder.path.parent
    known = judgement(harness.root, runs, plan.runner, plan.head, found.base)
    runner = harness.runners.get(plan.runner) or machine.this_runner()
    session = Session(
        harness,
        plan,
        specs,
        store,
        console,
        runs,
        known,
        base=found.base,
        gate=found.gate,
        pace=pace(arguments, runner, plan.items),
        kept=found.kept,
        changed=found.changed,
    )
    console.out(f"exacthead: {len(found.kept)} of {len(plan.items)} items have their verdict")
    found.make_room()
    return session.run_in(found.folder)


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
            harness,
            plan,
            specs,
            store,
            console,
            runs,
            known,
            pace=pace(arguments, runner[1], items, inside=bool(asked)),
        )
        return in_images(session, images).run()


def invocation() -> str:
    """How this was asked for, as one line of a shell."""
    return shlex.join(sys.argv[1:])
