"""All checks, each of which finds every problem of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.preflight import (
    cluster,
    contracts,
    gates,
    images,
    machine,
    recipes,
    resources,
    scripts,
    secrets,
    suites,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exacthead.preflight.case import Case
    from exacthead.preflight.problem import Problem

CHECKS: tuple[Callable[[Case], Iterable[Problem]], ...] = (
    suites.check,
    scripts.check,
    gates.check,
    secrets.check,
    images.check,
    machine.check,
    workers.check,
    recipes.check,
    resources.check,
    contracts.check,
    cluster.check,
)


def preflight(case: Case) -> list[Problem]:
    """Every problem of a session, in the order of the checks; it builds no worker of an item."""
    return [problem for check in CHECKS for problem in check(case)]
