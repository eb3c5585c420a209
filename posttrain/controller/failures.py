"""How a single controller's run can fail. All of it survives pickling, as it crosses processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from posttrain.dataplane import UnavailableError
from posttrain.errors import StackError

if TYPE_CHECKING:
    from posttrain.controller.words import Reservation

# Failures of which a run that ends tells the words.
FIRST = 3


class GroupError(StackError):
    """A group of which no row may be used: the group, and what was asked, found, to be done."""

    kind: ClassVar[str]

    @classmethod
    def of(cls, group: Reservation, cause: StackError) -> Self:
        """The failure of a group by a cause."""
        row = group.prompt.row.index
        asked = f"group {group.group} (row {row}, attempt {group.attempt + 1}): {cause.asked}"
        error = cls(asked, cause.found, cause.todo)
        error.__cause__ = cause
        return error


class GroupInfrastructureError(GroupError):
    """A process, a connection or a deadline failed a group: it is worth another try."""

    kind: ClassVar[str] = "infrastructure"


class GroupDataError(GroupError):
    """What the group contains is wrong: another try would not mend it."""

    kind: ClassVar[str] = "data"


class BudgetError(StackError):
    """More groups failed than the run may survive."""


class StallError(StackError):
    """No part of the run got anywhere for too long."""


class CommitError(StackError):
    """Rows that are not in the data plane as they were written."""


def commit_failure(group: Reservation, error: StackError) -> GroupError | None:
    """The failure of a group whose rows could not be written; None where the caller is at fault."""
    if isinstance(error, UnavailableError | CommitError):
        return GroupInfrastructureError.of(group, error)
    return None


@dataclass
class Budgets:
    """How many groups may fail, by kind, before the run ends.

    Attributes:
        allowed: failures that the run survives, by kind.
        spent: those that were met, by kind.
        causes: the words of the first ones, by kind.
    """

    allowed: dict[str, int]
    spent: dict[str, int] = field(default_factory=dict)
    causes: dict[str, list[str]] = field(default_factory=dict)

    def spend(self, error: GroupError) -> None:
        """Take a failure from its kind's budget.

        Raises:
            BudgetError: there was nothing left of it; the first causes are named.
        """
        kind = error.kind
        self.spent[kind] = self.spent.get(kind, 0) + 1
        first = self.causes.setdefault(kind, [])
        if len(first) < FIRST:
            first.append(f"{error.asked}: {error.found}")
        if self.spent[kind] > self.allowed[kind]:
            shown = "".join(f"\n    {cause}" for cause in first)
            raise BudgetError(
                f"at most {self.allowed[kind]} groups that fail for reasons of {kind}"
                f" (controller.budgets.{kind})",
                f"{self.spent[kind]} of them; the first:{shown}",
                error.todo,
            ) from error
