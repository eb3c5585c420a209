"""A secret that an item cannot do without and that is not there: its name, never a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.preflight.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.preflight.case import Case

NAME = "secrets"


def check(case: Case) -> Iterator[Problem]:
    """What is unset or empty."""
    asking: dict[str, list[str]] = {}
    for kind, tables in (("suite", case.suites), ("job", case.jobs)):
        for name, table in tables.items():
            for secret in table.secrets:
                if not case.environ.get(secret):
                    asking.setdefault(secret, []).append(f"{kind} {name!r}")
    for secret, who in asking.items():
        yield Problem(
            NAME,
            f"the secret {secret} for {', '.join(who)}",
            "the variable is empty" if secret in case.environ else "no such variable",
            f"set {secret} where the session is started; its value is never kept",
        )
