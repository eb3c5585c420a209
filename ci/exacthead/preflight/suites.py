"""A test file in no suite, and a suite with a path that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.preflight.problem import Problem
from exacthead.suites import orphans, repository_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.preflight.case import Case

NAME = "suites"
_SHOWN = 20


def check(case: Case) -> Iterator[Problem]:
    """Only of a session with suites: a job needs none of them."""
    for name, suite in case.suites.items():
        gone = [path for path in suite.paths if not (case.harness.root / path).exists()]
        if gone:
            yield Problem(
                NAME, f"suite {name!r}", f"no such path: {', '.join(gone)}", "mend its paths"
            )
    lost = orphans(case.harness, repository_files(case.harness)) if case.suites else []
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        yield Problem(
            NAME,
            "every test file in a suite",
            f"in none: {', '.join(lost[:_SHOWN])}{more}",
            "add each to the paths of a suite in harness.toml, or its folder to project.not_tests",
        )
