"""The command `plan`: what would run, where, with which keys and images, and why; it runs nothing.

It builds no worker: a suite whose tests are not known yet is planned by its number of shards.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from exacthead.images.where import GIVEN, image_for, wanted
from exacthead.opening import Opening, invocation, opened
from exacthead.pace import read_pace
from exacthead.plan import make_plan
from exacthead.runs.files import write_text
from exacthead.selection import UNNAMED, Asked
from exacthead.suite_plan import planned
from exacthead.wish import Wish, read_shard_option

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from exacthead.config import Harness
    from exacthead.plan import Item, Plan
    from exacthead.preflight.problem import Problem
    from exacthead.selection import Chosen
    from exacthead.tables import Runnable

REFUSED = 2
_KEY = 12


def plan(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Show the plan of what is asked for, with every problem that preflight finds."""
    # Whoever reads JSON from standard output wants nothing else there.
    spoken = Console(stderr=True, markup=False) if arguments.json == "-" else console
    opening = replace(read_opening(harness, arguments, spoken), shown=True)
    problems = opening.problems()
    made = None if problems else make(opening)
    entries = describe(opening, made)
    if arguments.json:
        text = json.dumps(_document(opening, made, entries, problems), indent=1) + "\n"
        if arguments.json == "-":
            console.file.write(text)
            return REFUSED if problems else 0
        write_text(Path(arguments.json), text)
    _show(opening, made, entries, console)
    for problem in problems:
        console.out(f"\n{problem}")
    if problems:
        console.out(f"\n{len(problems)} problems: nothing of this would be started")
    return REFUSED if problems else 0


def run(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run what `plan` shows for the same options: suites and legs in one run."""
    opening = read_opening(harness, arguments, console)
    opening = replace(
        opening,
        pace=read_pace(arguments),
        notify=arguments.notify,
        required=arguments.required,
    )
    with opened(opening) as session:
        return session.run()


def read_opening(harness: Harness, arguments: Namespace, console: Console) -> Opening:
    """What the options ask for; those about images decide where alone."""
    shard = read_shard_option(arguments.shard) if arguments.shard else None
    return Opening(
        harness,
        Asked(
            levels=tuple(arguments.level),
            jobs=tuple(arguments.job),
            suites=tuple(arguments.suite),
            legs=tuple(arguments.leg),
            sharded=shard is not None,
            changed_since=arguments.changed_since,
            only_failed_of=arguments.only_failed_of,
        ),
        Wish(
            shard=shard,
            coverage=bool(harness.coverage.sources),
            changed_since=arguments.changed_since,
        ),
        console,
        flavour=arguments.flavour,
        runner_name=arguments.runner or "",
        wanted=wanted(arguments),
    )


def make(opening: Opening) -> Plan:
    """The plan of a session without anything built; keys are those of this machine's workers."""
    specs = opening.all_specs()
    with ExitStack() as held:
        names = opening.selection.suites
        quiet = opening.planning(specs, say=lambda _: None)
        suites = held.enter_context(planned(quiet, names, build=False)) if names else None
        return make_plan(
            opening.head,
            (*(suites.items if suites else ()), *opening.legs()),
            specs,
            runner=opening.runner[0],
            flavour=opening.flavour,
            invocation=invocation(),
        )


@dataclass(frozen=True)
class Entry:
    """One item of the plan for readers and for a CI matrix.

    Attributes:
        id: of the item.
        chosen: the suite or leg, and why.
        declared: what harness.toml says of it.
        workers: role -> worker.
        arguments: what makes a session run exactly this item.
        fits: the runners of harness.toml that have what it asks for.
        image: the declared or given image that it would run in; empty outside of images.
        item: as planned; None where preflight found problems.
    """

    id: str
    chosen: Chosen
    declared: Runnable
    workers: dict[str, str]
    arguments: tuple[str, ...]
    fits: tuple[str, ...]
    image: str = ""
    item: Item | None = None

    @property
    def tests(self) -> int | None:
        """How many tests it runs; None for a leg, and where that is not known yet."""
        shard = self.item.shard if self.item else None
        return len(shard.nodeids) if shard else None

    def as_data(self, keys: dict[str, str], ready: set[str]) -> dict[str, Any]:
        """JSON-ready content."""
        item, shard = self.item, self.item.shard if self.item else None
        return {
            "id": self.id,
            "kind": self.chosen.kind,
            "name": self.chosen.name,
            "leg": self.chosen.leg,
            "level": self.chosen.level,
            "why": self.chosen.why,
            "arguments": list(self.arguments),
            "workers": {
                role: {"name": name, "key": keys.get(name), "ready": name in ready}
                for role, name in self.workers.items()
            },
            "image": self.image,
            "fits": list(self.fits),
            "cpus": self.declared.cpus,
            "memory_gb": self.declared.memory_gb,
            "accelerators": self.declared.accelerators,
            "timeout_s": item.timeout_s if item else None,
            "needs": list(self.declared.needs),
            "tests": self.tests,
            "expected_s": shard.expected_s if shard else None,
            "settled": str(item.settled) if item and item.settled else None,
            "notes": list(item.notes) if item else [],
        }


def describe(opening: Opening, made: Plan | None) -> list[Entry]:
    """The entries of a plan; without one, one for each suite and leg."""
    chosen = {each.id: each for each in opening.selection.chosen}
    if made is None:
        return [_entry(opening, name, each, None) for name, each in chosen.items()]
    entries = []
    for item in made.items:
        name = item.id if item.kind == "leg" else _suite_of(item, chosen)
        entries.append(_entry(opening, item.id, chosen[name], item))
    return entries


def _suite_of(item: Item, chosen: dict[str, Chosen]) -> str:
    """The id of an item's suite, which is the item's own without its shard."""
    if item.id in chosen:
        return item.id
    return item.id.rpartition(".")[0]


def _entry(opening: Opening, item_id: str, chosen: Chosen, item: Item | None) -> Entry:
    harness = opening.harness
    declared: Runnable
    if chosen.leg:
        job = harness.jobs[chosen.name]
        declared, workers = job, job.legs[chosen.leg].workers
        arguments = (f"functional_{chosen.name}", "--leg", chosen.leg)
    else:
        suite = harness.suites[chosen.name]
        declared, workers = suite, {"suite": suite.worker, **suite.roles}
        part = item_id.removeprefix(chosen.id).removeprefix(".").replace("of", "/")
        arguments = ("unit", "--suite", chosen.name, *(("--shard", part) if part else ()))
    fits = tuple(name for name, runner in harness.runners.items() if not runner.short_of(declared))
    return Entry(
        item_id, chosen, declared, dict(workers), arguments, fits, _image(opening, item), item
    )


def _image(opening: Opening, item: Item | None) -> str:
    if opening.wanted is None or item is None:
        return ""
    if opening.wanted.reference:
        return f"{GIVEN}: {opening.wanted.reference}"
    return image_for(opening.harness, item, opening.flavour)


def _document(
    opening: Opening, made: Plan | None, entries: Sequence[Entry], problems: Sequence[Problem]
) -> dict[str, Any]:
    name, runner = opening.runner
    ready = _ready(opening, made)
    keys = made.keys if made else {}
    return {
        "head": str(opening.head),
        "digest": made.digest if made else None,
        "runner": {"name": name, **runner.model_dump()},
        "flavour": opening.flavour,
        "items": [entry.as_data(keys, ready) for entry in entries],
        "left_out": dict(opening.selection.left_out),
        "notes": [*opening.selection.notes, *(made.notes if made else ())],
        "problems": [problem.as_data() for problem in problems],
        # What read_plan takes: for the jobs of a CI service, and for the merge of their runs.
        "plan": made.as_data() if made else None,
    }


def _ready(opening: Opening, made: Plan | None) -> set[str]:
    there = {each.key for each in opening.store.list() if each.state == "ready"}
    keys = made.keys.items() if made else ()
    provided = {n for n, worker in opening.harness.workers.items() if worker.provided}
    return {name for name, key in keys if key in there} | provided


def _show(opening: Opening, made: Plan | None, entries: Sequence[Entry], console: Console) -> None:
    name, runner = opening.runner
    console.out(
        f"head {opening.head}, runner {name}: {runner.cpus} cpus, {runner.memory_gb:g} GB,"
        f" {runner.accelerators} accelerators, flavour {opening.flavour}"
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("item", "level", "tests", "expected", "workers", "where", "why"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        shard = entry.item.shard if entry.item else None
        settled = entry.item.settled if entry.item else None
        table.add_row(
            entry.id,
            entry.chosen.level,
            "" if entry.chosen.leg else "?" if entry.tests is None else str(entry.tests),
            f"{shard.expected_s:.0f} s" if shard else "",
            ", ".join(dict.fromkeys(entry.workers.values())),
            entry.image or "here",
            str(settled) if settled else entry.chosen.why,
        )
    console.print(table)
    if made:
        ready = _ready(opening, made)
        for worker, key in made.keys.items():
            state = "ready" if worker in ready else "to be built"
            console.out(f"worker {worker}: {key[:_KEY]}, {state}")
        console.out(f"plan {made.digest[:_KEY]}, {len(made.items)} items")
    for note in (*opening.selection.notes, *(made.notes if made else ())):
        console.out(f"note: {note}")
    for entry in entries:
        for note in entry.item.notes if entry.item else ():
            console.out(f"note: {entry.id}: {note}")
    _show_left_out(opening.selection.left_out, console)


def _show_left_out(left_out: Mapping[str, str], console: Console) -> None:
    """What is not there in one line a reason; of what nobody named, how much that is."""
    reasons: dict[str, list[str]] = {}
    for item, why in left_out.items():
        reasons.setdefault(why, []).append(item)
    for why, items in reasons.items():
        shown = f"{len(items)} items" if why == UNNAMED else ", ".join(items)
        console.out(f"left out: {shown}: {why}")
