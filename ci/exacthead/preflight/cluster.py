"""One Ray cluster: one minor version of Python, and no `uv run` in a runtime environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exacthead.lint.declared import reachable
from exacthead.preflight.problem import Problem
from exacthead.suites import in_suite
from exacthead.workers.lock import CLUSTER_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exacthead.preflight.case import Case, LegCase

NAME = "cluster"
_RAY = "ray"
# As a command's words, options of uv between them.
_UV_RUN = re.compile(r"(?<![\w./-])uv(\s+-\S+)*\s+run\b")
_HOOK = "RAY_RUNTIME_ENV_HOOK"
# What Ray starts processes with, in a runtime environment.
_GIVEN = "py_executable"
_TODO = (
    "start processes with a worker's own interpreter: Ray would give `uv run` to every process of"
    " the cluster, and each would make an environment of its own"
)


def check(case: Case) -> Iterator[Problem]:
    """Minor versions by leg, and everything that a leg's Ray would be told to start with uv."""
    clusters = {leg.id: found for leg in case.legs if (found := _members(case, leg))}
    for leg in case.legs:
        if leg.id in clusters:
            yield from _check_minors(case, leg, clusters[leg.id])
            yield from _check_environment(case, leg)
    scripts = {leg.job.script for leg in case.legs if leg.id in clusters}
    for script in sorted(scripts):
        yield from _check_script(case, script)
    if clusters:
        yield from _check_sources(case)


def _members(case: Case, leg: LegCase) -> dict[str, str]:
    """Role -> worker of what joins the leg's cluster."""
    answer = case.answers.get(leg.id)
    if answer and answer.modules:
        kinds = [kind for kind, modules in answer.modules.items() if _RAY in modules]
        found = dict(leg.worker_of(kind) for kind in kinds)
    else:
        found = {
            role: name
            for role, name in leg.leg.workers.items()
            if CLUSTER_GROUP in case.harness.worker(name).groups
        }
    return {role: name for role, name in found.items() if name}


def _check_minors(case: Case, leg: LegCase, members: Mapping[str, str]) -> Iterator[Problem]:
    minors = {role: case.harness.worker(name).python for role, name in members.items()}
    if len(set(minors.values())) > 1:
        yield Problem(
            NAME,
            f"leg {leg.id}: one minor version of Python in its Ray cluster",
            ", ".join(f"{role} ({members[role]}) {minor}" for role, minor in minors.items()),
            "give these workers one `python`; Ray ends processes of another one without a word",
        )


def _check_environment(case: Case, leg: LegCase) -> Iterator[Problem]:
    tables: dict[str, Mapping[str, str]] = {f"leg {leg.id}": leg.leg.environment}
    for name in sorted(set(leg.leg.workers.values())):
        tables[f"worker {name!r}"] = case.harness.worker(name).environment
    answer = case.answers.get(leg.id)
    if answer:
        texts = {key: value for key, value in answer.values.items() if isinstance(value, str)}
        tables[f"recipe {leg.job.recipe}"] = texts
    for where, values in tables.items():
        for name, value in values.items():
            if name == _HOOK or _UV_RUN.search(value):
                yield Problem(NAME, f"leg {leg.id}: {where}: {name}", f"it is {value!r}", _TODO)


def _check_script(case: Case, script: str) -> Iterator[Problem]:
    for path in sorted(reachable(case.sources, [script])):
        text = case.sources.content(path).decode(errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if _UV_RUN.search(line.partition("#")[0]):
                yield Problem(NAME, f"{path}:{number}", f"`{line.strip()}`", _TODO)


def _check_sources(case: Case) -> Iterator[Problem]:
    """Python that gives it to Ray; tests may write what they like."""
    for path in case.sources.named(".py"):
        content = case.sources.content(path)
        if _GIVEN.encode() not in content or in_suite(case.harness, path):
            continue
        text = content.decode(errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if _GIVEN in line and _UV_RUN.search(line):
                yield Problem(NAME, f"{path}:{number}", f"`{line.strip()}`", _TODO)
