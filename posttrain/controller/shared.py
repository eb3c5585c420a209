"""What the pumps of one run share: the ledger and how they learn that it changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posttrain.controller.failures import GroupInfrastructureError
from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from posttrain.controller.commit import Committer
    from posttrain.controller.failures import Budgets, GroupError
    from posttrain.controller.ledger import Ledger
    from posttrain.controller.words import Finished, Reservation, RolloutSource
    from posttrain.dataplane import DataPlane


class Bell:
    """Wakes whoever waits for the ledger to change."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Have everybody look again."""
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true, which is looked at whenever the bell rings."""
        while not true():
            await self._rung.wait()


@dataclass(frozen=True)
class Arrived:
    """A rollout that a source finished, stamped."""

    group: Reservation
    finished: Finished


@dataclass(frozen=True)
class Over:
    """A group of which nothing more arrives, and why it failed, if it did."""

    group: Reservation
    error: GroupError | None = None


@dataclass
class Shared:
    """The parts of one run. They belong to one event loop.

    Attributes:
        ledger: of all groups.
        source: of the rollouts.
        plane: where rows go; its partition is registered.
        committer: writes them there.
        budgets: of failures.
        newest: newest version of the weights that an engine may serve by now.
        bell: rung after each change of the ledger.
        events: from the generation pump to the rollout pump.
        generating: the tasks of the groups that the source is at work on, by name.
    """

    ledger: Ledger
    source: RolloutSource
    plane: DataPlane
    committer: Committer
    budgets: Budgets
    newest: int = 0
    bell: Bell = field(default_factory=Bell)
    events: asyncio.Queue[Arrived | Over] = field(default_factory=asyncio.Queue)
    generating: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def tell(self, group: Reservation, news: Awaitable[None]) -> None:
        """Tell the source what became of a group: ``committed`` or ``abandoned``.

        Raises:
            BudgetError: the source could not let go of what it kept, once too often. What became
                of the group stays as it is.
        """
        try:
            await news
        except StackError as error:
            self.budgets.spend(GroupInfrastructureError.of(group, error))
