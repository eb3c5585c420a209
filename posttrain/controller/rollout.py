"""The rollout pump: finished groups are committed whole, failed ones leave nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from posttrain.controller.failures import (
    BudgetError,
    GroupError,
    GroupInfrastructureError,
    commit_failure,
)
from posttrain.controller.ledger import Phase
from posttrain.controller.shared import Arrived
from posttrain.errors import StackError

if TYPE_CHECKING:
    from typing import NoReturn

    from posttrain.controller.shared import Over, Shared
    from posttrain.controller.watchdog import Pulse
    from posttrain.controller.words import Finished, Reservation


class RolloutPump:
    """Takes rollouts as they arrive.

    Args:
        shared: the run's parts.
        pulse: the pump's.
    """

    def __init__(self, shared: Shared, pulse: Pulse) -> None:
        self._shared = shared
        self._pulse = pulse
        self._arrived: dict[str, list[Finished]] = {}

    async def run(self) -> NoReturn:
        """Commit groups for ever.

        Raises:
            BudgetError: more groups failed than the run survives.
            StackError: the data plane is not one that a group could be committed to.
        """
        while True:
            with self._pulse.wait("a rollout to arrive"):
                event = await self._shared.events.get()
            if isinstance(event, Arrived):
                self._arrived.setdefault(event.group.group, []).append(event.finished)
            else:
                with self._pulse.wait(f"group {event.group.group} to be committed"):
                    await self._over(event)
                self._forget()
                self._shared.bell.ring()

    def _forget(self) -> None:
        """Let go of what arrived of groups that were dropped, of which no end is told."""
        known = {group.group for group in self._shared.ledger.groups(*Phase)}
        self._arrived = {name: it for name, it in self._arrived.items() if name in known}

    async def _over(self, event: Over) -> None:
        shared, group, error = self._shared, event.group, event.error
        finished = self._arrived.pop(group.group, [])
        if shared.ledger.phase(group) is None:
            # It was dropped while its last event was on its way.
            await shared.tell(group, shared.source.abandoned(group))
        elif error is not None:
            await self._failed(group, error)
        else:
            await self._commit(group, finished)

    async def _commit(self, group: Reservation, finished: list[Finished]) -> None:
        shared = self._shared
        try:
            there = await shared.committer.commit(group, finished)
        except GroupError as error:
            await self._failed(group, error)
            return
        except StackError as error:
            if (failure := commit_failure(group, error)) is None:
                raise
            await self._failed(group, failure)
            return
        if there:
            await shared.tell(group, shared.source.committed(group))
            return
        if shared.ledger.phase(group) is not None:
            shared.ledger.dropped(group, stale=True)
        await shared.tell(group, shared.source.abandoned(group))

    async def _failed(self, group: Reservation, error: GroupError) -> None:
        shared = self._shared
        if shared.ledger.phase(group) is None:
            await shared.tell(group, shared.source.abandoned(group))
            return
        shared.ledger.failed(group, again=isinstance(error, GroupInfrastructureError))
        try:
            shared.budgets.spend(error)
        except BudgetError:
            # The run ends with this. That something could not be let go of as well says less.
            with suppress(StackError):
                await shared.source.abandoned(group)
            raise
        await shared.tell(group, shared.source.abandoned(group))
