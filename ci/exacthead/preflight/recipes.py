"""A recipe that cannot work, or that is about other data, models or environments than declared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from exacthead.errors import nearest
from exacthead.preflight.problem import Problem, of_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.preflight.answers import Answer
    from exacthead.preflight.case import Case, LegCase

NAME = "recipes"


def check(case: Case) -> Iterator[Problem]:
    """What the stack refuses, and what differs from the job's ``binds``; once for equal legs."""
    if case.unanswered:
        yield of_error(NAME, case.unanswered)
    seen = set()
    for name, job in case.jobs.items():
        if job.recipe and case.harness.recipes is None:
            yield Problem(
                NAME,
                f"job {name!r}: recipe {job.recipe}",
                "nobody can be asked about recipes",
                "declare [recipes] in harness.toml, or leave the recipe out",
            )
        if not job.recipe and (job.binds or job.entry or job.overrides):
            yield Problem(
                NAME,
                f"job {name!r}: binds, entry or overrides",
                "it names no recipe that they are about",
                f"give [jobs.{name}] its recipe",
            )
    for leg in case.legs:
        answer = case.answers.get(leg.id)
        for problem in _of_leg(leg, answer) if answer else ():
            told = (problem.asked.removeprefix(f"leg {leg.id}: "), problem.found)
            if told not in seen:
                seen.add(told)
                yield problem


def _of_leg(leg: LegCase, answer: Answer) -> Iterator[Problem]:
    for fault in answer.problems:
        yield Problem(NAME, f"leg {leg.id}: {fault.asked}", fault.found, fault.todo)
    if not answer.values:
        return
    for key, declared in leg.job.binds.items():
        if key not in answer.values:
            yield Problem(
                NAME,
                f"leg {leg.id}: binds {key}",
                f"recipe {leg.job.recipe} has no such key",
                nearest(key, answer.values),
            )
        elif answer.values[key] != declared:
            yield Problem(
                NAME,
                f"leg {leg.id}: {key} = {_shown(declared)}, as [jobs.{leg.job_name}] binds it",
                f"{leg.job.recipe} makes it {_shown(answer.values[key])}",
                f"set {key} in the recipe itself, or declare what it is meant to be",
            )


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
