"""Which rows a step trains on: batches of one size from passes over all rows, and where they stand.

Each pass takes every row exactly once. A batch may begin in one pass and end in the next, but never
holds a row twice: its rollouts would be the same ones again, and two groups would be taken for one.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.errors import RecipeError, StackError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.data import Row


@dataclass(frozen=True)
class Position:
    """Where a run stands in its dataset.

    Attributes:
        epoch: passes that are over.
        taken: rows that the present pass has given.
        late: rows of the pass before that the batch across the border took, which this pass does
            not give to that same batch.
    """

    epoch: int = 0
    taken: int = 0
    late: tuple[int, ...] = ()


class Prompts:
    """The dataset in batches; what comes next depends on the rows, the settings and the position.

    Args:
        rows: the dataset, at least one row.
        per_step: rows of one batch; None for all rows at every step, in their own order.
        shuffle: whether each pass has an order of its own, drawn from the seed; else the rows' own.
        seed: seed of the orders.
        epochs: passes that may begin; None for any number.

    Raises:
        RecipeError: a batch is larger than the dataset.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        per_step: int | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
        epochs: int | None = None,
    ) -> None:
        if per_step is not None and per_step > len(rows):
            raise RecipeError(
                f"{per_step} different prompts a step (data.prompts_per_step)",
                f"{len(rows)} rows to train on",
                "ask for fewer prompts and more rollouts of each, or give more rows",
            )
        self.rows = rows
        self.per_step = per_step or len(rows)
        self.position = Position()
        self._shuffle = shuffle and per_step is not None
        self._seed = seed
        self._epochs = epochs
        self._known: tuple[int, tuple[int, ...], list[int]] | None = None

    @property
    def passes(self) -> float:
        """Passes over the dataset so far, the present one by its part."""
        return self.position.epoch + self.position.taken / len(self.rows)

    def check_steps(self, steps: int) -> None:
        """Refuse a run of ``steps`` steps that would need more passes than may begin.

        Raises:
            RecipeError: with the arithmetic.
        """
        if self._epochs is None:
            return
        wanted = steps * self.per_step
        if wanted > self._epochs * len(self.rows):
            raise RecipeError(
                f"{steps} steps of {self.per_step} prompts within {self._epochs} passes over"
                f" {len(self.rows)} rows (data.epochs)",
                f"{wanted} prompts, which are {math.ceil(wanted / len(self.rows))} passes",
                f"give run.steps {self._epochs * len(self.rows) // self.per_step} or fewer,"
                " or more data.epochs",
            )

    def take(self) -> list[Row]:
        """The next batch, and one step further.

        Raises:
            RecipeError: another pass would have to begin than may. `check_steps` tells before, of
                a run that drops no prompt.
        """
        epoch, taken, late = self.position.epoch, self.position.taken, self.position.late
        batch = self._order(epoch, late)[taken : taken + self.per_step]
        taken += len(batch)
        if len(batch) < self.per_step:
            late, taken = tuple(batch), self.per_step - len(batch)
            batch = batch + self._order(epoch := epoch + 1, late)[:taken]
        if self._epochs is not None and epoch >= self._epochs:
            raise RecipeError(
                f"prompts of {self._epochs} passes over {len(self.rows)} rows (data.epochs)",
                "all of them taken; those that were dropped are not in any step",
                "find out why prompts were dropped, or give more data.epochs",
            )
        if taken == len(self.rows):
            epoch, taken, late = epoch + 1, 0, ()
        self.position = Position(epoch, taken, late)
        return [self.rows[place] for place in batch]

    def resume(self, position: Position) -> None:
        """Go on where another run over the same rows with the same settings stood.

        Raises:
            StackError: no run could stand there.
        """
        places = range(len(self.rows))
        late = len(position.late)
        if not (
            position.epoch >= 0
            and position.taken in places
            and late < self.per_step
            and len(set(position.late)) == late
            and all(place in places for place in position.late)
        ):
            raise StackError(
                f"go on in a dataset of {len(self.rows)} rows, {self.per_step} a step",
                f"{position}",
                "resume with the dataset and the settings that the run began with",
            )
        self.position = position

    def _order(self, epoch: int, late: tuple[int, ...]) -> list[int]:
        """Places of the rows in the order of a pass."""
        if self._known is None or self._known[:2] != (epoch, late):
            order = list(range(len(self.rows)))
            if self._shuffle:
                random.Random(f"{self._seed}/order/{epoch}").shuffle(order)  # noqa: S311  (no secret)
            _put_behind(order, set(late), self.per_step - len(late))
            self._known = epoch, late, order
        return self._known[2]


def _put_behind(order: list[int], late: set[int], head: int) -> None:
    """Swap what is in ``late`` out of the first ``head`` places, with the first that may be there.

    There are enough of those: the batch is not larger than the dataset.
    """
    clashes = [place for place in range(head) if order[place] in late]
    free = (place for place in range(head, len(order)) if order[place] not in late)
    for place, other in zip(clashes, free, strict=False):
        order[place], order[other] = order[other], order[place]


def content_digest(rows: Sequence[Row]) -> str:
    """``sha256:`` and the digest of what the rows say, in their order; spaces do not count."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row.raw, sort_keys=True).encode() + b"\n")
    return f"sha256:{digest.hexdigest()}"
