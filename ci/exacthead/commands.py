"""The commands that run items: from parsed arguments to a plan, from a plan to an exit code."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead import machine
from exacthead.equip import check_machine, open_store, resolve_all
from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.plan import leg_items, make_plan, suite_items, worker_names
from exacthead.reproduce import checkout, find, plan_again
from exacthead.session import Session

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness, Runner
    from exacthead.plan import Item


def functional(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run a job's legs."""
    name, runner = _runner(harness, arguments.runner)
    items = leg_items(harness, arguments.job, arguments.leg)
    machine.check_runner(arguments.job, harness.job(arguments.job), name, runner)
    return _run(harness, items, name, arguments, console)


def unit(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run unit suites."""
    name, _ = _runner(harness, arguments.runner)
    return _run(harness, suite_items(harness, arguments.suite), name, arguments, console)


def reproduce(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run one item of an earlier run again: same head, keys, order, seed and environment."""
    past = find(Path(arguments.item))
    with checkout(harness.root, past) as (root, differences):
        # The workers and the new run stay in this checkout, wherever the item runs.
        store = open_store(harness.root)
        there, plan, specs, more = plan_again(past, root, store, _invocation())
        remarks = tuple(f"differs: {line}" for line in (*differences, *more))
        for line in remarks:
            console.out(f"exacthead: {line}")
        runs = harness.root / "runs"
        return Session(there, plan, specs, store, console, runs, remarks).run()


def _runner(harness: Harness, name: str | None) -> tuple[str, Runner]:
    return (name, harness.runner(name)) if name else ("this machine", machine.this_runner())


def _run(
    harness: Harness, items: tuple[Item, ...], runner: str, arguments: Namespace, console: Console
) -> int:
    if not items:
        raise HarnessError(
            f"run {arguments.command}", "nothing is selected", "declare a suite or a leg first"
        )
    store = open_store(harness.root)
    names = worker_names(items)
    check_machine(harness, names, arguments.flavour, store)
    specs = resolve_all(harness, names, arguments.flavour)
    plan = make_plan(
        read_head(harness.root),
        items,
        specs,
        runner=runner,
        flavour=arguments.flavour,
        invocation=_invocation(),
    )
    return Session(harness, plan, specs, store, console, harness.root / "runs").run()


def _invocation() -> str:
    return shlex.join(sys.argv[1:])
