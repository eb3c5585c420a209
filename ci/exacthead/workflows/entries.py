"""Entries: from the items of a plan to the jobs of a CI service, in groups that gates can tell."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.runs.folder import folder_name
from exacthead.runs.gates import Gates, needed
from exacthead.suite_items import pytest_arguments
from exacthead.verdict import Kind, Verdict
from exacthead.wish import Wish
from exacthead.workers.layout import STEM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.config import Harness
    from exacthead.plan import Item, Plan
    from exacthead.tables import Resources, Runner

# What building the workers may take on a machine that has none, in minutes.
_BUILD_MINUTES = 45
# And what fetching kept workers may, and packing and keeping a run folder.
_KEEP_MINUTES = 20
# What a store keeps of a ready worker: the folder, and the ending of what is named by its stem.
KEPT_OF_WORKER = (("workers", ""), ("records", ".json"), ("manifests", ".json.gz"))
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Group:
    """A suite, a job, or one leg that is a gate by itself; a job of a workflow for each.

    Attributes:
        name: ``unit.SUITE``, ``JOB`` or ``JOB.LEG``: what `needs` calls it.
        needs: the names of the groups that are its gates.
    """

    name: str
    needs: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its id in a workflow: letters, digits, ``_`` and ``-``; no two names share one."""
        kind, rest = (
            ("suite", self.name[5:]) if self.name.startswith("unit.") else ("job", self.name)
        )
        if _PLAIN_ID.fullmatch(rest):
            return f"{kind}-{rest}"
        digest = hashlib.sha256(self.name.encode("utf-8", errors="surrogatepass")).hexdigest()
        return f"{kind}-{re.sub('[^A-Za-z0-9_]+', '-', rest)[:40]}--{digest[:12]}"


@dataclass(frozen=True)
class Entry:
    """One item as a CI service runs it.

    Attributes:
        id: the item's.
        command: what a person would type, as one command of a shell.
        minutes: after which the service ends its job.
        step_minutes: after which it ends the command; the harness ends the item before that.
        runner: the kind of its machine.
        labels: how the service finds such a machine.
        artifact: what its run folder is called there.
        workers: what the folders of its workers are called in a store, one for each key.
    """

    id: str
    command: str
    minutes: int
    step_minutes: int
    runner: str
    labels: tuple[str, ...]
    artifact: str
    workers: tuple[str, ...] = ()


def groups(harness: Harness) -> tuple[Group, ...]:
    """The groups that harness.toml declares, each behind its gates."""
    whole = {f"unit.{name}": suite.needs for name, suite in harness.suites.items()}
    whole |= {name: job.needs for name, job in harness.jobs.items()}
    legs = {f"{name}.{leg}": name for name, job in harness.jobs.items() for leg in job.legs}
    # A leg that somebody waits for is waited for alone.
    alone = [leg for leg in legs if any(leg in needs for needs in whole.values())]
    names = [*whole, *alone]
    found = []
    for name in names:
        needs = whole[legs.get(name, name)]
        # Of a job whose legs are partly gates by themselves, all parts are meant.
        gates = [each for each in names if each in needed(needs, names)]
        found.append(Group(name, tuple(gates)))
    return tuple(found)


def group_of(item: Item, known: Iterable[Group]) -> Group:
    """The group that an item belongs to, the narrowest one.

    Raises:
        HarnessError: harness.toml declares no such suite or job.
    """
    fitting = [group for group in known if item.id in needed([group.name], [item.id])]
    if not fitting:
        raise HarnessError(
            f"a workflow's job for item {item.id!r}",
            "harness.toml declares neither its suite nor its job",
            "plan again at this head",
        )
    return max(fitting, key=lambda group: len(group.name))


def startable(plan: Plan) -> tuple[Item, ...]:
    """The items that get a machine: not settled by the plan, and behind no gate that is so red."""
    gates = Gates.of(plan.items)
    verdicts: dict[str, Verdict] = {}
    found = []
    for item in plan.items:  # each behind its gates
        if item.settled is not None:
            verdicts[item.id] = item.settled
        elif closed := gates.closed(item.id, verdicts):
            verdicts[item.id] = Verdict(Kind.NOT_RUN, closed)
        else:
            found.append(item)
    return tuple(found)


def entry(harness: Harness, plan: Plan, item: Item) -> Entry:
    """How a CI service runs an item.

    Raises:
        HarnessError: no declared runner has what it asks for.
    """
    kind, runner = _runner(harness, plan, item)
    minutes = math.ceil(item.timeout_s / 60) + _BUILD_MINUTES
    return Entry(
        id=item.id,
        command=shlex.join(command(harness, plan, item)),
        minutes=minutes + _KEEP_MINUTES,
        step_minutes=minutes,
        runner=kind,
        labels=runner.labels,
        artifact=folder_name(item.id),
        workers=_stems(harness, plan, item),
    )


def built_workers(harness: Harness) -> list[set[str]]:
    """For each suite and leg that is declared, the names of its workers that are built."""
    suites = [{suite.worker, *suite.roles.values()} for suite in harness.suites.values()]
    legs = [set(leg.workers.values()) for job in harness.jobs.values() for leg in job.legs.values()]
    return [
        {name for name in names if harness.worker(name).provided is None}
        for names in (*suites, *legs)
    ]


def _stems(harness: Harness, plan: Plan, item: Item) -> tuple[str, ...]:
    names = sorted(set(item.workers.values()))
    built = (plan.keys[name] for name in names if harness.worker(name).provided is None)
    return tuple(dict.fromkeys(key[:STEM] for key in built))


def command(harness: Harness, plan: Plan, item: Item) -> tuple[str, ...]:
    """The words that a person would type to run an item as it is planned."""
    where = ("--runner", plan.runner) if plan.runner in harness.runners else ()
    flavour = ("--flavour", plan.flavour) if plan.flavour != "cpu" else ()
    if item.kind == "leg":
        name = _job(harness, item)
        # The session of a job is called after it; the command has it as an argument.
        session = called(harness, f"functional_{name}", ("functional", name), with_arguments=True)
        words: tuple[str, ...] = ("--leg", item.command[-1])
    else:
        session, words = called(harness, "unit", with_arguments=True), _shard(harness, item)
    # A service holds back what is behind a gate by the exit code of the gate's command.
    held = ("--required",) if item.id in plan.gating and not item.required else ()
    return (*session, *words, *held, *where, *flavour)


def called(
    harness: Harness, session: str, command: tuple[str, ...] = (), *, with_arguments: bool
) -> tuple[str, ...]:
    """How a session is called, with arguments to come or without.

    Args:
        harness: the declarations; a repository without ``noxw`` calls the harness as a module.
        session: its name.
        command: the harness's own command, where it is called otherwise.
        with_arguments: whether arguments follow.
    """
    if not (harness.root / "noxw").exists():
        return ("python", "-m", "exacthead", *(command or (session,)))
    return ("./noxw", "-s", session, *(("--",) if with_arguments else ()))


def _job(harness: Harness, item: Item) -> str:
    name = item.id.removesuffix(f".{item.command[-1]}")
    harness.job(name)
    return name


def _suite(harness: Harness, item: Item) -> tuple[str, str]:
    """The name of an item's suite, and its shard as ``K/N``; empty where it is all of it."""
    name = item.id.removeprefix("unit.")
    if name in harness.suites:
        return name, ""
    name, _, part = name.rpartition(".")
    harness.suite(name)
    return name, part.replace("of", "/")


def _shard(harness: Harness, item: Item) -> tuple[str, ...]:
    name, part = _suite(harness, item)
    suite, shard = harness.suite(name), item.shard
    # What skips itself in CI is nobody's to see.
    words = ["--suite", name, *(["--shard", part] if part else []), "--strict"]
    if shard is None:  # its tests are not known yet, so nobody asked for anything about them
        return tuple(words)
    if shard.retries:
        words += ["--retries", str(shard.retries)]
    if suite.coverage and harness.coverage.sources and not shard.coverage:
        words += ["--no-cov"]
    asked = shard.arguments[len(pytest_arguments(suite, Wish())) :]
    return (*words, *(f"--pytest={shlex.quote(each)}" for each in asked))


def _runner(harness: Harness, plan: Plan, item: Item) -> tuple[str, Runner]:
    """The runner that is planned for, or the smallest declared one that will do."""
    if plan.runner in harness.runners:
        return plan.runner, harness.runners[plan.runner]
    asked = _resources(harness, item)
    fitting = [
        (runner.accelerators, runner.cpus, runner.memory_gb, name)
        for name, runner in harness.runners.items()
        if not runner.short_of(asked)
    ]
    if not fitting:
        what = f"{asked.cpus} cpus, {asked.memory_gb:g} GB, {asked.accelerators} accelerators"
        raise HarnessError(
            f"a runner for item {item.id!r}, which asks for {what}",
            f"none of these has that: {', '.join(harness.runners) or 'no runner is declared'}",
            "declare one in [runners] of harness.toml",
        )
    name = min(fitting)[-1]
    return name, harness.runners[name]


def _resources(harness: Harness, item: Item) -> Resources:
    if item.kind == "leg":
        return harness.job(_job(harness, item))
    return harness.suite(_suite(harness, item)[0])
