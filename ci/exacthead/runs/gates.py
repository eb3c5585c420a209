"""Gates: an item that needs others runs behind them, and not at all where one of them is red."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from exacthead.verdict import Verdict

REASON = "gate"


class Needing(Protocol):
    """An item as gates see it: its id, and the names of what it needs."""

    @property
    def id(self) -> str:
        """Its id in the plan."""
        ...

    @property
    def needs(self) -> Sequence[str]:
        """What must be green before it runs."""
        ...

    @property
    def void(self) -> bool:
        """Whether the plan itself left it without anything to run: then it holds nothing back."""
        ...


AnyItem = TypeVar("AnyItem", bound=Needing)


@dataclass(frozen=True)
class Gates:
    """Which items wait for which.

    Attributes:
        before: item id -> the ids of the items that it needs and that are planned, in their order;
            without the items that need none.
    """

    before: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, items: Iterable[Needing]) -> Gates:
        """The gates between some items. A gate that is not among them is nobody's to wait for.

        Neither is one that is void: a shard that is empty by plan is no red one.
        """
        every = tuple(items)
        ids = [item.id for item in every if not item.void]
        found = {item.id: needed(item.needs, ids) for item in every if item.needs}
        return cls({name: gates for name, gates in found.items() if gates})

    def waiting(self, item_id: str, ended: Collection[str]) -> tuple[str, ...]:
        """The items that it still waits for."""
        return tuple(gate for gate in self.before.get(item_id, ()) if gate not in ended)

    def closed(self, item_id: str, verdicts: Mapping[str, Verdict]) -> str:
        """Why it must not run; empty when every gate that has a verdict is green."""
        red = (
            f"{gate} is {verdicts[gate].kind}"
            for gate in self.before.get(item_id, ())
            if gate in verdicts and not verdicts[gate].green
        )
        reasons = ", ".join(red)
        return f"{REASON}: {reasons}" if reasons else ""


def needed(needs: Iterable[str], ids: Iterable[str]) -> tuple[str, ...]:
    """The items that are meant by names: ``unit.SUITE`` is all its shards, ``JOB`` all its legs."""
    names = tuple(needs)
    return tuple(
        each for each in ids if any(each == name or each.startswith(f"{name}.") for name in names)
    )


def in_order(items: Sequence[AnyItem]) -> tuple[AnyItem, ...]:
    """The items with each behind what it needs, otherwise as they stand.

    Raises:
        HarnessError: they wait for each other in a circle.
    """
    before = Gates.of(items).before
    placed: dict[str, AnyItem] = {}
    left = list(items)
    while left:
        ready = next((it for it in left if all(g in placed for g in before.get(it.id, ()))), None)
        if ready is None:
            names = ", ".join(item.id for item in left)
            todo = "take one of their `needs` out of harness.toml"
            raise HarnessError("an order of the items", f"each waits for another: {names}", todo)
        placed[ready.id] = ready
        left.remove(ready)
    return tuple(placed.values())
