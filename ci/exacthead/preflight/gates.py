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
    legs = {f"{name}.{leg}": name for name, job in case.harness.jobs.items() for leg in job.legs}
    selected = [*(f"unit.{name}" for name in case.suites), *case.jobs]
    for name in selected:
        for gate in declared[name].needs:
            if problem := _why_never(case, declared, legs, name, gate):
                yield Problem(
                    NAME,
                    f"{name} behind the gate {gate}",
                    problem,
                    f"mend `needs` of {name} in harness.toml",
                )
    gates = {name: [legs.get(gate, gate) for gate in each.needs] for name, each in declared.items()}
    for circle in _circles(selected, gates):
        yield Problem(
            NAME,
            f"{circle[0]} behind its gates",
            f"they wait for each other: {' needs '.join(circle)}",
            "take one of these `needs` away",
        )


def _why_never(
    case: Case,
    declared: Mapping[str, Runnable],
    legs: Mapping[str, str],
    name: str,
    gate: str,
) -> str:
    whole = legs.get(gate, gate)
    if whole not in declared:
        return f"harness.toml declares no such item; {nearest(gate, [*declared, *legs])}"
    table = declared[whole]
    chosen = {*(f"unit.{each}" for each in case.suites), *case.jobs}
    if table.on_request and not declared[name].on_request and whole not in chosen:
        return "it runs on request only, and is not asked for"
    # A job that fits nowhere is refused when it is selected itself; a suite is skipped, and no gate
    # that is skipped opens.
    if whole in chosen and (short := case.runner.short_of(table, f"{case.runner_name} has")):
        return f"it cannot run: {'; '.join(short)}"
    return ""


def _declared(harness: Harness) -> dict[str, Runnable]:
    suites: dict[str, Runnable] = {f"unit.{name}": each for name, each in harness.suites.items()}
    return {**suites, **harness.jobs}


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
