"""A contract that cannot be read, or that names a metric which nothing of its leg can write."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from exacthead.contracts.load import load, metrics_named
from exacthead.errors import HarnessError
from exacthead.preflight.problem import Problem, of_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.contracts.model import Contract
    from exacthead.preflight.case import Case, LegCase

NAME = "contracts"
_SHOWN = 5


def check(case: Case) -> Iterator[Problem]:
    """Every contract of the selected legs, each read once."""
    read: dict[str, Contract | None] = {}
    for leg in case.legs:
        path = leg.job.contract_of(leg.name)
        if path not in read:
            try:
                read[path] = load(case.harness.root / path)
            except HarnessError as error:
                read[path] = None
                yield of_error(NAME, error)
        contract = read[path]
        if contract is not None:
            yield from _check_metrics(case, leg, contract)


def _check_metrics(case: Case, leg: LegCase, contract: Contract) -> Iterator[Problem]:
    answer = case.answers.get(leg.id)
    if not (answer and answer.metrics):
        return  # nobody says what the leg can write
    patterns = [re.compile(pattern) for pattern in answer.metrics]
    absent = [
        name
        for name in sorted(metrics_named(contract))
        if not any(pattern.fullmatch(name) for pattern in patterns)
        and not any(fnmatchcase(name, pattern) for pattern in leg.leg.metrics)
    ]
    if absent:
        more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        yield Problem(
            NAME,
            f"leg {leg.id}: contract {leg.job.contract_of(leg.name)}",
            f"{leg.job.recipe} with entry {leg.job.entry!r} writes no"
            f" {', '.join(map(repr, absent[:_SHOWN]))}{more}",
            "mend the names, or switch on what writes them; what a script adds is in `metrics`",
        )
