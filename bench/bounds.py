"""Bounds of a benchmark: a figure each, printed with its verdict; any that is missed is exit 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 110


@dataclass(frozen=True)
class Bound:
    """A figure that must not lie on the wrong side of its limit; a NaN is on it.

    Attributes:
        name: what was measured, with its unit.
        value: of this run.
        kind: whether the limit is the most or the least that is allowed.
        limit: itself allowed.
        digits: after the point, as printed.
    """

    name: str
    value: float
    kind: Literal["at most", "at least"]
    limit: float
    digits: int = 3

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side."""
        if self.kind == "at most":
            return self.value <= self.limit
        return self.value >= self.limit


def verdict(bounds: Sequence[Bound]) -> int:
    """Print every bound with its figure; the exit code."""
    table = Table(title="bounds")
    for column in ("figure", "measured", "bound", "holds"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for bound in bounds:
        measured, limit = (f"{number:,.{bound.digits}f}" for number in (bound.value, bound.limit))
        holds = "yes" if bound.holds else "NO"
        table.add_row(bound.name, measured, f"{bound.kind} {limit}", holds)
    console = Console(width=WIDTH)
    console.print(table)
    missed = [bound.name for bound in bounds if not bound.holds]
    console.print(f"missed: {', '.join(missed)}" if missed else "every bound holds")
    return 1 if missed else 0
