"""A gate that can never open: the items behind it would silently stay unstarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.errors import nearest
from exacthead.preflight.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exacthead.config import Harness
    from exacthead.preflight.case import Case
    from exacthead.tables import Runnable

NAME = "gates"


def check(case: Case) -> Iterator[Problem]:
    """Gates that are not declared, wait for each other, run on request only, or fit nowhere."""
    declared = _declared(case.harness)
    gates = {name: _gates(table, case.harness) for name, table in declared.items()}
    selected = [*(f"unit.{name}" for name in case.suites), *case.jobs]
    for name in selected:
        for gate in declared[name].needs:
            if problem := _why_never(case, declared, name, gate):
                yield Problem(
                    NAME,
                    f"{name} behind the gate {gate}",
                    problem,
                    f"mend `needs` of {name} in harness.toml",
                )
    for circle in _circles(selected, gates):
        yield Problem(
            NAME,
            f"{circle[0]} behind its gates",
            f"they wait for each other: {' needs '.join(circle)}",
            "take one of these `needs` away",
        )


def _why_never(case: Case, declared: Mapping[str, Runnable], name: str, gate: str) -> str:
    whole = _whole(gate, case.harness)
    if whole not in declared or (whole != gate and not _has_leg(case.harness, whole, gate)):
        known = [*declared, *_legs(case.harness)]
        return f"harness.toml declares no such item; {nearest(gate, known)}"
    table = declared[whole]
    if table.on_request and not declared[name].on_request:
        chosen = {*(f"unit.{each}" for each in case.suites), *case.jobs}
        if whole not in chosen:
            return "it runs on request only, and is not asked for"
    if short := case.runner.short_of(table, f"{case.runner_name} has"):
        return f"it cannot run: {'; '.join(short)}"
    return ""


def _declared(harness: Harness) -> dict[str, Runnable]:
    suites: dict[str, Runnable] = {f"unit.{name}": each for name, each in harness.suites.items()}
    return {**suites, **harness.jobs}


def _legs(harness: Harness) -> list[str]:
    return [f"{name}.{leg}" for name, job in harness.jobs.items() for leg in job.legs]


def _whole(gate: str, harness: Harness) -> str:
    """The job of a leg; anything else as it is."""
    for name, job in harness.jobs.items():
        if any(gate == f"{name}.{leg}" for leg in job.legs):
            return name
    return gate


def _has_leg(harness: Harness, job: str, gate: str) -> bool:
    return gate.removeprefix(f"{job}.") in harness.jobs[job].legs


def _gates(table: Runnable, harness: Harness) -> list[str]:
    return [_whole(gate, harness) for gate in table.needs]


def _circles(selected: list[str], gates: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """A way from each selected item back to itself, each circle once."""
    told: set[frozenset[str]] = set()
    for start in selected:
        ways = [[start]]
        seen = {start}
        while ways:
            way = ways.pop()
            for gate in gates.get(way[-1], ()):
                if gate == start and frozenset(way) not in told:
                    told.add(frozenset(way))
                    yield [*way, start]
                if gate not in seen:
                    seen.add(gate)
                    ways.append([*way, gate])
