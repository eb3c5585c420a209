"""The commands: from parsed arguments to a plan or a call of the library, and an exit code."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead import machine
from exacthead.bootstrap import cache_folder
from exacthead.config import load
from exacthead.equip import open_store, ready, resolve_all
from exacthead.errors import HarnessError
from exacthead.head import git, read_head
from exacthead.lint import lint as run_lint
from exacthead.plan import leg_items, make_plan, read_plan, suite_items
from exacthead.session import Session
from exacthead.workers.explain import explain
from exacthead.workers.index import read_indexes
from exacthead.workers.lock import HARNESS, check_locks, lock_path
from exacthead.workers.locking import compile_harness_lock, compile_lock

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.plan import Item, Plan

# Free space that building the workers and one run can need, in GB.
DISK_GB = 20.0
TWO = 2


def functional(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run a job's legs."""
    name, runner = _runner(harness, arguments.runner)
    machine.check_runner(arguments.job, harness.job(arguments.job), name, runner)
    items = leg_items(harness, arguments.job, arguments.leg)
    return _run(harness, items, name, arguments, console)


def unit(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run unit suites."""
    name, _ = _runner(harness, arguments.runner)
    return _run(harness, suite_items(harness, arguments.suite), name, arguments, console)


def _runner(harness: Harness, name: str | None) -> tuple[str, machine.Runner]:
    return (name, harness.runner(name)) if name else ("this machine", machine.this_runner())


def _run(
    harness: Harness, items: tuple[Item, ...], runner: str, arguments: Namespace, console: Console
) -> int:
    names = {worker for item in items for worker in item.workers.values()}
    _check_machine(harness, names)
    specs = resolve_all(harness, names, arguments.flavour)
    plan = make_plan(
        read_head(harness.root),
        items,
        specs,
        runner=runner,
        flavour=arguments.flavour,
        invocation=shlex.join(sys.argv[1:]),
    )
    return Session(harness, plan, specs, console).run()


def _check_machine(harness: Harness, names: Iterable[str]) -> None:
    cache = cache_folder(harness.root)
    machine.check(machine.needs(harness, names, cache, DISK_GB if not cache.exists() else 2.0))


def reproduce(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run one item of an earlier run again: same head, keys, order, seed and environment."""
    folder, item_id = _split(arguments.item)
    plan = read_plan(folder / "plan.json").only(item_id)
    root = _checkout(harness.root, plan, console)
    at_head = load(root)
    specs = resolve_all(at_head, plan.keys, plan.flavour)
    different = [
        f"worker {name}: key {spec.key[:12]} here, {plan.keys[name][:12]} there"
        for name, spec in specs.items()
        if spec.key != plan.keys[name]
    ]
    for line in different:
        console.print(f"exacthead: differs: {line}", markup=False, highlight=False)
    return Session(at_head, plan, specs, console, runs=harness.root / "runs").run()


def _split(text: str) -> tuple[Path, str]:
    """A run folder and what follows it: the item's id, which may hold slashes itself."""
    path = Path(text)
    for parent in path.parents:
        if (parent / "plan.json").is_file():
            return parent, path.relative_to(parent).as_posix().removeprefix("items/")
    raise HarnessError(
        f"reproduce {text!r}", "no run folder there", "give RUN/ITEM as the failed run printed it"
    )


def _checkout(root: Path, plan: Plan, console: Console) -> Path:
    """This checkout when it is the plan's head, else a work tree of it in the cache folder."""
    now, then = read_head(root), plan.head
    if then.dirty:
        console.print(
            f"exacthead: differs: the run's checkout had changes beside {then.commit[:12]}",
            markup=False,
            highlight=False,
        )
    if now == then or (now.commit == then.commit and then.dirty):
        return root
    tree = cache_folder(root) / "heads" / then.commit
    if not tree.exists():
        git(root, "worktree", "add", "--detach", str(tree), then.commit)
    return tree


def workers(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Build workers or look at them."""
    store = open_store(harness.root)
    if arguments.list:
        for each in store.list():
            line = f"{each.key[:12]} {each.state:10} {each.size / 1e9:6.2f} GB"
            console.print(f"{line}  {', '.join(each.names)}", markup=False, highlight=False)
        return 0
    if arguments.gc is not None:
        for key in store.gc(int(arguments.gc * 1e9)):
            console.print(f"removed {key[:12]}", markup=False, highlight=False)
        return 0
    names = arguments.names or [
        name
        for name, worker in harness.workers.items()
        if arguments.flavour in worker.flavours
    ]
    specs = resolve_all(harness, names, arguments.flavour)
    if arguments.explain:
        if len(names) != TWO:
            raise HarnessError("explain", f"{len(names)} workers", "name exactly two workers")
        for line in explain(specs[names[0]], specs[names[1]]):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        return 0
    if arguments.verify or arguments.repair:
        damaged = 0
        for name, spec in specs.items():
            damages = store.verify(spec.key)
            damaged += bool(damages)
            console.print(f"worker {name}: {len(damages)} damages", markup=False, highlight=False)
            for damage in damages:
                console.print(f"  {damage}", markup=False, highlight=False, soft_wrap=True)
            if damages and arguments.repair:
                store.repair(spec.key)
        return int(bool(damaged) and not arguments.repair)
    _check_machine(harness, names)
    with ready(harness, specs, lambda line: console.print(line, markup=False, highlight=False)):
        return 0


def lock(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Write locks, or say which are stale."""
    if arguments.check:
        problems = check_locks(harness)
        for problem in problems:
            console.print(problem, markup=False, highlight=False, soft_wrap=True)
        return int(bool(problems))
    indexes = read_indexes(os.environ)
    built = [name for name, worker in harness.workers.items() if worker.provided is None]
    for name in arguments.names or [HARNESS, *built]:
        if name == HARNESS:
            text = compile_harness_lock(harness.root, indexes, upgrade=arguments.upgrade)
            lock_path(harness.root, HARNESS).write_text(text, encoding="utf-8")
            console.print(f"locked {HARNESS}", markup=False, highlight=False)
            continue
        for flavour in harness.worker(name).flavours:
            text = compile_lock(harness, name, flavour, indexes, upgrade=arguments.upgrade)
            lock_path(harness.root, name, flavour).write_text(text, encoding="utf-8")
            console.print(f"locked {name}-{flavour}", markup=False, highlight=False)
    return 0


def lint(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run the static checks in the worker that carries the tools."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    with ready(harness, resolve_all(harness, ["unit"], "cpu"), say) as built:
        findings = run_lint(harness, built["unit"].python.parent, fix=arguments.fix, say=say)
    for finding in findings:
        say(f"\n{finding.check}:\n{finding.output}")
    return int(bool(findings))


def ci(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Print the sessions of [ci], one a line, for the noxfile."""
    del arguments, console
    for name in harness.ci.sessions:
        print(name)
    return 0
