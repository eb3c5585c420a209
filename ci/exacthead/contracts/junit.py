"""A contract's checks as JUnit test cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.junit import Case

if TYPE_CHECKING:
    from exacthead.contracts.evaluate import ContractResult


def cases(result: ContractResult, classname: str) -> list[Case]:
    """One test case for each check, in the contract's order.

    Args:
        result: the evaluated contract.
        classname: what groups the cases in a report, for instance ``gym_training.flag_off``.
    """
    return [
        Case(
            classname=classname,
            name=check.name,
            seconds=0.0,
            verdict=check.verdict,
            output="\n".join(
                f"{label}: {text}"
                for label, text in (
                    ("kind", check.kind),
                    ("metric", check.metric),
                    ("observed", check.observed),
                    ("demanded", check.bound),
                )
            ),
        )
        for check in result.checks
    ]
