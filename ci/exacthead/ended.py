"""An item that has ended: what was planned, what was asked, what became of its process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exacthead import junit
from exacthead.runs.execute import plain_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exacthead.junit import Case
    from exacthead.plan import Item
    from exacthead.runs.item import ItemOutcome, ItemRequest
    from exacthead.runs.result import ItemResult


@dataclass(frozen=True)
class Ended:
    """What a verdict rests on.

    Attributes:
        item: what was planned.
        request: what was asked of this machine.
        outcome: how its process ended, or that it never started.
        properties: what the JUnit file says of how its results came about.
        clean: takes secrets out of a text.
    """

    item: Item
    request: ItemRequest
    outcome: ItemOutcome
    properties: Mapping[str, str]
    clean: Callable[[str], str] = str

    def result(self, **found: Any) -> ItemResult:
        """The item's result: its process's facts, and fields of the result that say more."""
        return plain_result(self.request, self.outcome).model_copy(update=found)

    def write_cases(self, cases: Iterable[Case]) -> None:
        """Write the item's JUnit file.

        Raises:
            HarnessError: the item's folder cannot be written to.
        """
        path, name = self.request.folder.junit, self.item.id
        junit.write_cases(path, name, cases, self.properties)
