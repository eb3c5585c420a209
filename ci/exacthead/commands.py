"""The commands that run what is asked for, and those that run it again: arguments in, code out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exacthead import machine
from exacthead.earlier import find_run
from exacthead.equip import check_machine, open_store, resolve_all
from exacthead.errors import HarnessError
from exacthead.images.where import wanted
from exacthead.judgement import judgement
from exacthead.opening import Opening, invocation, opened
from exacthead.pace import read_pace
from exacthead.resume import SUPERSEDED, unfinished
from exacthead.selection import Asked
from exacthead.session import Session
from exacthead.wish import Wish

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness


def functional(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run a job's legs."""
    opening = Opening(
        harness,
        Asked(jobs=(arguments.job,), legs=tuple(arguments.leg)),
        Wish(),
        console,
        flavour=arguments.flavour,
        runner_name=arguments.runner or "",
        wanted=wanted(arguments),
        pace=read_pace(arguments),
        notify=arguments.notify,
        required=arguments.required,
    )
    with opened(opening) as session:
        return session.run()


def reproduce(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run one item of an earlier run again: same head, keys, order, seed and environment."""
    from exacthead.reproduce import reproduce_item

    if (arguments.item is None) == (arguments.resume is None):
        raise HarnessError("reproduce", "not one of RUN/ITEM and --resume RUN", "give one of them")
    if arguments.resume is None and (
        arguments.jobs != 1 or arguments.fail_fast or arguments.notify
    ):
        todo = "give --jobs, --fail-fast and --notify with --resume RUN"
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
    found = unfinished(harness.root, find_run(harness.root, arguments.resume).path)
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
        pace=read_pace(arguments).on(runner, plan.items),
        kept=found.kept,
        changed=found.changed,
        notify=arguments.notify,
    )
    console.out(f"exacthead: {len(found.kept)} of {len(plan.items)} items have their verdict")
    found.make_room()
    # What a harness has left that was killed is as its items wrote it.
    for problem in session.masker.folder(found.folder.path / SUPERSEDED):
        session.say(problem)
    return session.run_in(found.folder)
