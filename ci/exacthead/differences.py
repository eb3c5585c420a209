"""Differences: what a repetition cannot have as the run had it, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.runs.provenance import Machine, Provenance
    from exacthead.workers.spec import Spec

_SHOWN = 5
_KEY_DIGITS = 12
# Every item gets its own of these, whatever the harness has inherited.
_REPLACED = frozenset({"HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "XDG_CACHE_HOME"})


def keys(
    specs: Mapping[str, Spec], there: Mapping[str, str], used: Provenance | None
) -> tuple[str, ...]:
    """The workers whose keys differ, with both interpreters."""
    uses = {each.name: each for each in used.workers} if used else {}
    return tuple(
        f"worker {name}: key {spec.key[:_KEY_DIGITS]} here, {there[name][:_KEY_DIGITS]} there;"
        f" Python {spec.interpreter.version} here,"
        f" {uses[name].interpreter.split()[-1] if name in uses else 'unknown'} there"
        for name, spec in specs.items()
        if spec.key != there[name]
    )


def packages(specs: Mapping[str, Spec], used: Provenance) -> tuple[str, ...]:
    """The provided workers, whose keys cannot tell what is in them, with what changed there."""
    lines = []
    for each in used.workers:
        if each.name not in specs or not specs[each.name].provided:
            continue
        here, there = set(specs[each.name].lock.split()), set(each.packages)
        if here != there:
            lines.append(
                f"worker {each.name}: {_some(here - there)} here, {_some(there - here)} there"
            )
    return tuple(lines)


def between(here: Provenance, there: Provenance, runner: str) -> tuple[str, ...]:
    """How the machine, the inherited variables, the fixtures and the harness differ."""
    lines = []
    if machine := _machine(here.machine, there.machine):
        lines.append(f"runner {runner!r} was another machine: {machine}")
    if variables := _names(here.environment, there.environment) - _REPLACED:
        lines.append(f"inherited variables: {_some(variables)}")
    if fixtures := _names(here.fixtures, there.fixtures):
        lines.append(f"fixtures: {_some(fixtures)}")
    if here.harness != there.harness:
        lines.append(f"harness {here.harness} here, {there.harness} there")
    return tuple(lines)


def _machine(here: Machine, there: Machine) -> str:
    """The facts that differ; what a kernel leaves of the memory is not told to the megabyte."""
    return "; ".join(
        f"{one} here, {other} there"
        for one, other in zip(_facts(here), _facts(there), strict=True)
        if one != other
    )


def _facts(machine: Machine) -> tuple[str, ...]:
    return (
        machine.kernel,
        machine.cpu,
        f"{machine.cpus} CPUs",
        f"{round(machine.memory_mb / 1024)} GiB",
        ", ".join(machine.accelerators) or "no accelerator",
    )


def _names(here: Mapping[str, str], there: Mapping[str, str]) -> set[str]:
    return {name for name, _ in here.items() ^ there.items()}


def _some(words: set[str]) -> str:
    shown = sorted(words)[:_SHOWN]
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return (", ".join(shown) or "nothing") + more
