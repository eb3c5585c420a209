"""What the single controller's parts say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from posttrain.data import Row
    from posttrain.sample import Sample


@dataclass(frozen=True)
class Prompt:
    """One prompt of a run, of which a group of rollouts is wanted.

    Attributes:
        number: its place in the order in which prompts are taken, from 0.
        row: the task.
        seed: what the seeds of its rollouts are derived from (``rollout_seed``).
    """

    number: int
    row: Row
    seed: str


@dataclass(frozen=True)
class Reservation:
    """One attempt at a group: the right to have a prompt's rollouts in flight.

    Attributes:
        group: its name, which no other attempt has.
        prompt: what is rolled out.
        attempt: how often the prompt was tried before.
        ids: of the group's rows in the data plane, one a rollout; fresh for each attempt.
        version: of the weights that were served when it was admitted.
    """

    group: str
    prompt: Prompt
    attempt: int
    ids: tuple[str, ...]
    version: int


@dataclass(frozen=True)
class Finished:
    """One rollout that is over.

    Attributes:
        rollout: its number in the group, from 0.
        sample: what is trained on; None for a placeholder, which is never trained.
        cause: why there is no sample, the first cause; empty where there is one.
        last_weight_version: of the newest weights that may have generated a token; None where the
            source does not know. The oldest is the sample's ``weight_version``.
    """

    rollout: int
    sample: Sample | None
    cause: str = ""
    last_weight_version: int | None = None

    def __post_init__(self) -> None:
        if (self.sample is None) != bool(self.cause):
            raise ValueError(f"rollout {self.rollout}: either a sample or a cause, not {self}")


class RolloutSource(Protocol):
    """Where rollouts come from. Its methods run on the controller's event loop."""

    def run(self, group: Reservation) -> AsyncGenerator[Finished, None]:
        """Roll a prompt out, and give each rollout as soon as it is finished, in any order.

        To close the iterator early cancels what is still in flight.

        Raises:
            GroupError: the group failed; none of its rollouts counts.
        """

    async def committed(self, group: Reservation) -> None:
        """The group's rows are durable in the data plane: what was kept for them may go.

        Raises:
            StackError: it could not go now; the source tries again with the next group.
        """

    async def abandoned(self, group: Reservation) -> None:
        """The group failed, was dropped or cancelled: what was kept for it may go.

        Raises:
            StackError: as ``committed``.
        """

    async def validate(self, rows: Sequence[Row], seed: str) -> list[Sample]:
        """Roll each row out once.

        Raises:
            StackError: one of them failed.
        """

    async def between_steps(self) -> None:
        """Called after each step, while groups may be in flight.

        Raises:
            StackError: what rollouts need did not survive what was done then.
        """

    def take_metrics(self) -> Mapping[str, float | str]:
        """The source's own metrics of what was finished since the last call."""

    async def close(self) -> None:
        """Called once, when no group is in flight any more."""

    def watch(self) -> None:
        """Called about five times a second.

        Raises:
            StackError: a process that rollouts need has died.
        """
