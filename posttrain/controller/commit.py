"""Write a group's rows to the data plane: all of them, while they are wanted, or none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from posttrain.controller.failures import CommitError, GroupDataError
from posttrain.controller.ledger import Phase
from posttrain.controller.rows import FIELDS, PARTITION, encode
from posttrain.controller.threads import in_thread, to_the_end
from posttrain.dataplane import PlaneError
from posttrain.errors import DataError, StackError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.controller.ledger import Ledger
    from posttrain.controller.words import Finished, Reservation
    from posttrain.dataplane import DataPlane, Row

SEE = "look for the cause in docs/controller.md and in the logs"


@dataclass(frozen=True)
class Committer:
    """Commits whole groups.

    Attributes:
        plane: where the rows go; its partition is registered.
        ledger: who says whether a group is still wanted.
    """

    plane: DataPlane
    ledger: Ledger

    async def commit(self, group: Reservation, finished: Sequence[Finished]) -> bool:
        """Write the group's rows, once it is sure that they are wanted, and look at them again.

        Args:
            group: in flight.
            finished: every rollout of the group, stamped.

        Returns:
            Whether the rows are there. False: the group was dropped before or while they were
            written; none of them is left.

        Raises:
            GroupDataError: not exactly the group's rollouts, one that no row can hold, or nothing
                but placeholders; nothing was written.
            CommitError: rows are missing that were written; none of them is left.
            PlaneError: the data plane did not take them; it keeps none of them.
        """
        rows = _rows(group, finished)
        if self.ledger.phase(group) is not Phase.RUNNING or self.ledger.stale(group):
            return False
        self.ledger.committing(group)
        try:
            # Not to be left alone: what it writes after its group was given up would stay.
            await to_the_end(in_thread("put", partial(self.plane.put, PARTITION, rows)))
            held = await in_thread("check", partial(self.plane.check, PARTITION, group.ids))
        except BaseException:
            # Why it failed says more than that nothing could be cleared after that.
            with suppress(PlaneError):
                await to_the_end(self.erase(group))
            raise
        wanted = self.ledger.phase(group) is Phase.COMMITTING
        missing = [row for row in group.ids if held.get(row) != frozenset(FIELDS)]
        if wanted and not missing:
            self.ledger.committed(group)
            return True
        await to_the_end(self.erase(group))
        if wanted:
            raise CommitError(
                f"{len(group.ids)} rows of group {group.group} in partition {PARTITION!r}",
                f"{', '.join(missing)} evicted while they were committed",
                "find out who clears rows of the controller's partition",
            )
        return False

    async def erase(self, group: Reservation) -> None:
        """Clear what the data plane has of a group, or gets of it by a put that it is late with.

        Raises:
            PlaneError: it cannot; nobody uses what is left, because no group owns it.
        """
        clear = partial(self.plane.clear, PARTITION, group.ids, unknown=True)
        await in_thread("clear", clear)


def _rows(group: Reservation, finished: Sequence[Finished]) -> dict[str, Row]:
    numbers = sorted(it.rollout for it in finished)
    if numbers != list(range(len(group.ids))):
        wrong = StackError(
            f"each of the rollouts 0 to {len(group.ids) - 1} once",
            f"rollouts {numbers}",
            "mend the source of the rollouts",
        )
        raise GroupDataError.of(group, wrong)
    if all(it.sample is None for it in finished):
        wrong = StackError(
            "a rollout to train on", f"placeholders only; the first: {finished[0].cause}", SEE
        )
        raise GroupDataError.of(group, wrong)
    try:
        # In the order of the rollouts, not of their arrival.
        ordered = sorted(finished, key=lambda it: it.rollout)
        return {group.ids[it.rollout]: encode(group, it) for it in ordered}
    except DataError as error:
        raise GroupDataError.of(group, error) from error
