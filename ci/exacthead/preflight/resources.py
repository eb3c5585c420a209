"""More devices, CPUs or memory than there are: of a runner, of a job, of a recipe's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.preflight.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.preflight.answers import Answer
    from exacthead.preflight.case import Case, LegCase
    from exacthead.tables import Job, Runner

NAME = "resources"


def check(case: Case) -> Iterator[Problem]:
    """Jobs against the runner, and recipes against what their jobs declare.

    A suite that asks for more is no problem: it is skipped, and says so.
    """
    for name, job in case.jobs.items():
        yield from check_runner(name, job, case.runner_name, case.runner)
    for leg in case.legs:
        if answer := case.answers.get(leg.id):
            yield from _check_recipe(leg, answer)


def check_runner(name: str, job: Job, runner_name: str, runner: Runner) -> Iterator[Problem]:
    """A job that asks for more than the runner has, with the numbers of both."""
    if short := runner.short_of(job, f"{runner_name} has"):
        yield Problem(
            NAME,
            f"run job {name!r} on runner {runner_name!r}",
            "; ".join(short),
            "choose a larger runner, or lower what the job asks for in harness.toml",
        )


def _check_recipe(leg: LegCase, answer: Answer) -> Iterator[Problem]:
    sums = f" ({answer.sum})" if answer.sum else ""
    short = [
        f"{what}: its Ray cluster asks {wish}{sums}, the job declares {own}"
        for what, wish, own in (
            ("cpus", answer.cluster.cpus, leg.job.cpus),
            ("accelerators", answer.cluster.accelerators, leg.job.accelerators),
        )
        if wish > own
    ]
    if short:
        yield Problem(
            NAME,
            f"leg {leg.id}: recipe {leg.job.recipe}",
            "; ".join(short),
            f"raise them in [jobs.{leg.job_name}], or lower cluster.* in the recipe",
        )
