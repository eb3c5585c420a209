"""Workers that cannot be what their items need: stale, unproven, or older than what needs them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from exacthead.equip import resolve_all
from exacthead.errors import HarnessError, nearest
from exacthead.preflight.machine import no_interpreter
from exacthead.preflight.problem import Problem, of_error
from exacthead.workers.lock import pins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exacthead.preflight.case import Case, LegCase
    from exacthead.workers.spec import Spec

NAME = "workers"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def check(case: Case) -> Iterator[Problem]:
    """Locks, patches, variables, probes; modules and versions that legs need of their workers."""
    specs: dict[str, Spec] = {}
    for name in case.workers:
        yield from _check_probes(case, name)
        worker = case.harness.worker(name)
        minor, floor, below = worker.python, worker.patch_floor, worker.below_patch_floor
        lacks = worker.provided is None and no_interpreter(minor, floor, below=below)
        if lacks or name not in case.workers_here:
            continue  # that there is no interpreter is a problem of the machine
        try:
            specs |= resolve_all(case.harness, [name], case.flavour)
        except HarnessError as error:
            yield of_error(NAME, error)
    for leg in case.legs:
        yield from _check_modules(case, leg)
        yield from _check_packages(leg, specs)


def _check_probes(case: Case, name: str) -> Iterator[Problem]:
    worker = case.harness.worker(name)
    wrong = [probe for probe in worker.probes if not _MODULE.fullmatch(probe)]
    if wrong:
        yield Problem(
            NAME,
            f"worker {name!r}: probes that name modules",
            f"no module can be called {', '.join(map(repr, wrong))}",
            f"give the names that code imports in [workers.{name}] probes",
        )


def _check_modules(case: Case, leg: LegCase) -> Iterator[Problem]:
    """What the recipe's processes import must be among what is probed before a worker is ready."""
    answer = case.answers.get(leg.id)
    for kind, modules in answer.modules.items() if answer else ():
        role, name = leg.worker_of(kind)
        if not name:
            yield Problem(
                NAME,
                f"leg {leg.id}: a worker for {kind}",
                f"no role {role!r} in it; {nearest(role, leg.leg.workers)}",
                f"give [jobs.{leg.job_name}.legs.{leg.name}] workers that role",
            )
            continue
        probes = case.harness.worker(name).probes
        missing = [each for each in modules if not _proven(each, probes)]
        if missing:
            yield Problem(
                NAME,
                f"leg {leg.id}: worker {name!r} as {role}, which imports {', '.join(missing)}",
                f"no probe of it proves {'that' if len(missing) == 1 else 'these'}:"
                f" {', '.join(probes) or 'none'}",
                "choose a worker that has it, or add it to the worker's requirements and probes",
            )


def _proven(module: str, probes: tuple[str, ...]) -> bool:
    return any(probe == module or probe.startswith(f"{module}.") for probe in probes)


def _check_packages(leg: LegCase, specs: Mapping[str, Spec]) -> Iterator[Problem]:
    """The versions that what the leg switches on needs."""
    for role, requirements in leg.leg.packages.items():
        name = leg.leg.workers.get(role, "")
        if not name:
            yield Problem(
                NAME,
                f"leg {leg.id}: packages of role {role!r}",
                "no such role",
                nearest(role, leg.leg.workers),
            )
        elif name in specs:
            pinned = pins(specs[name].lock)
            for text in requirements:
                if found := _unmet(text, pinned):
                    yield Problem(
                        NAME,
                        f"leg {leg.id}: {text} in worker {name!r}",
                        found,
                        f"raise it in [workers.{name}] and lock again, or switch off what needs it",
                    )


def _unmet(text: str, pinned: Mapping[str, str]) -> str:
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        return f"that is no requirement: {error}"
    version = pinned.get(canonicalize_name(wanted.name))
    if version is None:
        return f"it has no {wanted.name}"
    return "" if wanted.specifier.contains(version, prereleases=True) else f"it has {version}"
