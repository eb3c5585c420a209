"""The commands that keep a repository in order: workers, locks, static checks."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.equip import check_machine, open_store, ready, resolve_all
from exacthead.errors import HarnessError
from exacthead.lint.check import run_checks, without_tools
from exacthead.lint.sources import Sources
from exacthead.lint.tools import NEED_TOOLS, Tools
from exacthead.runs.files import write_text
from exacthead.workers.explain import explain
from exacthead.workers.index import read_indexes
from exacthead.workers.lock import HARNESS, carries_harness, check_locks, lock_path
from exacthead.workers.locking import compile_harness_lock, compile_lock

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.lint.finding import Finding
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Store

_GB = 1e9
_PAIR = 2


def workers(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Build workers or look at them."""
    store = open_store(harness.root)
    if arguments.list:
        return _list(store, console)
    if arguments.gc is not None:
        return _collect(store, arguments.gc, console)
    names = arguments.names or [
        name for name, worker in harness.workers.items() if arguments.flavour in worker.flavours
    ]
    specs = resolve_all(harness, names, arguments.flavour)
    if arguments.explain:
        return _explain(specs, console)
    if arguments.verify or arguments.repair:
        damaged = _damaged(store, specs, console)
        if not arguments.repair:
            return int(bool(damaged))
        for spec in damaged.values():
            store.repair(spec.key)
        specs = damaged
    check_machine(harness, specs, arguments.flavour, store)
    with ready(harness, specs, store, console.out):
        return 0


def _list(store: Store, console: Console) -> int:
    for each in store.list():
        line = f"{each.key[:12]} {each.state:10} {each.size / _GB:6.2f} GB"
        console.out(f"{line}  {', '.join(each.names)}")
    return 0


def _collect(store: Store, keep_gb: float, console: Console) -> int:
    for key in store.gc(int(keep_gb * _GB)):
        console.out(f"removed {key[:12]}")
    return 0


def _explain(specs: dict[str, Spec], console: Console) -> int:
    if len(specs) != _PAIR:
        raise HarnessError(
            "explain why two workers differ",
            f"{len(specs)} workers named",
            "name exactly two: nox -s workers -- --explain A B",
        )
    for line in explain(*specs.values()) or ["the same key: one environment serves both"]:
        console.out(line)
    return 0


def _damaged(store: Store, specs: dict[str, Spec], console: Console) -> dict[str, Spec]:
    """Those of ``specs`` with a changed file; that none is there to be verified is an error."""
    found = {name: store.find(spec.key) for name, spec in specs.items() if not spec.provided}
    there = [name for name, record in found.items() if record and record.state == "ready"]
    if not there:
        raise HarnessError(
            f"verify {', '.join(specs) or 'workers'}",
            "none of them is built (a provided one is its owner's to verify)",
            "build them first with nox -s workers",
        )
    damaged = {}
    for name, spec in specs.items():
        if name not in there:
            console.out(
                f"worker {name}: not verified, {'provided' if spec.provided else 'not built'}"
            )
            continue
        damages = store.verify(spec.key)
        console.out(f"worker {name}: {len(damages)} damages")
        for damage in damages:
            console.out(f"  {damage}")
        if damages:
            damaged[name] = spec
    return damaged


def lock(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Write locks, or say which are stale."""
    if arguments.check:
        problems = check_locks(harness)
        for problem in problems:
            console.out(problem)
        return int(bool(problems))
    indexes = read_indexes(os.environ)
    built = [name for name, worker in harness.workers.items() if worker.provided is None]
    own = [HARNESS] if carries_harness(harness.root) else []
    lock_path(harness.root, HARNESS).parent.mkdir(exist_ok=True)
    for name in arguments.names or [*own, *built]:
        if name in own:
            text = compile_harness_lock(harness.root, indexes, upgrade=arguments.upgrade)
            write_text(lock_path(harness.root, HARNESS), text)
            console.out(f"locked {HARNESS}")
            continue
        worker = harness.worker(name)
        if worker.provided is not None:
            raise HarnessError(
                f"a lock for worker {name!r}",
                f"it is provided: {worker.provided}",
                "name a worker that is built",
            )
        for flavour in worker.flavours:
            text = compile_lock(harness, name, flavour, indexes, upgrade=arguments.upgrade)
            write_text(lock_path(harness.root, name, flavour), text)
            console.out(f"locked {name}-{flavour}")
    return 0


def lint(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run the static checks: those that need tools in the worker that carries them."""
    name = harness.lint.worker
    if name is None and arguments.fix:
        raise HarnessError(
            "lint --fix", "no worker has the tools", "declare [lint] worker in harness.toml"
        )
    # Said at once: the worker may not be to be had.
    findings = run_checks(without_tools(harness, Sources.of(harness)), console.out)
    if name is None:
        console.out(f"{', '.join(NEED_TOOLS)}: not run, harness.toml has no [lint] worker")
    else:
        findings += _with_tools(harness, name, console, fix=arguments.fix)
    console.out(f"lint: {len(findings)} findings" if findings else "lint: ok")
    return int(bool(findings))


def _with_tools(harness: Harness, name: str, console: Console, *, fix: bool) -> list[Finding]:
    store = open_store(harness.root)
    check_machine(harness, [name], "cpu", store)
    specs = resolve_all(harness, [name], "cpu")
    with ready(harness, specs, store, console.out) as built:
        tools = Tools(harness, Sources.of(harness), built[name].python)
        if fix:
            tools.fix()
            tools = replace(tools, sources=Sources.of(harness))
        return run_checks(tools.checks(), console.out)
