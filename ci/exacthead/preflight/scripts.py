"""A script on disk that no job names, and a job without its script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.errors import nearest
from exacthead.lint.declared import beside, reachable
from exacthead.preflight.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.preflight.case import Case

NAME = "scripts"


def check(case: Case) -> Iterator[Problem]:
    """Selected jobs without a script, and scripts that nothing would ever start."""
    if not case.jobs:
        return
    declared = {job.script for job in case.harness.jobs.values()}
    on_disk = beside(case.sources.shell, declared)
    for name, job in case.jobs.items():
        if not (case.harness.root / job.script).is_file():
            yield Problem(
                NAME,
                f"job {name!r}: script {job.script}",
                f"no file {job.script}; {nearest(job.script, on_disk)}",
                "restore it or mend the job",
            )
    reached = reachable(case.sources, declared)
    for path in on_disk:
        if path not in reached:
            yield Problem(
                NAME,
                f"script {path} in a job",
                "no job names it, and none of their scripts does",
                "declare a job for it in harness.toml, or remove it",
            )
