"""A script on disk that no job names, and a job without its script."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from exacthead.errors import nearest
from exacthead.preflight.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.preflight.case import Case

NAME = "scripts"
_SOURCES = re.compile(r"(?m)^\s*(?:source|\.)\s+[\"']?([\w./-]+)")


def check(case: Case) -> Iterator[Problem]:
    """Selected jobs without a script, and scripts that nothing would ever start."""
    for name, job in case.jobs.items():
        if not (case.harness.root / job.script).is_file():
            yield Problem(
                NAME,
                f"job {name!r}: script {job.script}",
                f"no file {job.script}; {nearest(job.script, _on_disk(case.harness))}",
                "restore it or mend the job",
            )
    for path in unnamed(case.harness):
        yield Problem(
            NAME,
            f"script {path} in a job",
            "no job names it, and no job's script sources it",
            "declare a job for it in harness.toml, or remove it",
        )


def unnamed(harness: Harness) -> list[str]:
    """The shell scripts beside those of jobs that no job would run, sorted, from the root."""
    used = {
        path for job in harness.jobs.values() for path in read_scripts(harness.root, job.script)
    }
    return [path for path in _on_disk(harness) if path not in used]


def read_scripts(root: Path, script: str) -> dict[str, str]:
    """The text of a script and of all that it sources, by path; what is not there is left out."""
    found: dict[str, str] = {}
    todo = [script]
    while todo:
        path = PurePosixPath(todo.pop()).as_posix()
        if path in found or not (root / path).is_file():
            continue
        found[path] = (root / path).read_text(encoding="utf-8", errors="replace")
        todo += _SOURCES.findall(found[path])
    return found


def _on_disk(harness: Harness) -> list[str]:
    folders = {PurePosixPath(job.script).parent for job in harness.jobs.values()}
    return sorted(
        path.relative_to(harness.root).as_posix()
        for folder in folders
        for path in (harness.root / folder).glob("*.sh")
    )
