"""The ledger of groups: who may be admitted, what became of whom, what is too old.

Plain bookkeeping without a clock, a loop or a data plane. A prompt is *outstanding* from its
reservation until it is trained or dropped, over all attempts at it. Since a step trains
``per_step`` prompts, one of ``outstanding`` is trained at most ``outstanding // per_step`` steps
later, if none overtakes it; admission keeps that within the staleness window. What is overtaken
grows too old and is dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from posttrain.controller.counts import Counts
from posttrain.controller.words import Reservation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posttrain.controller.words import Prompt


class Phase(Enum):
    """Where a group stands that is not over: neither trained, nor dropped, nor failed."""

    RUNNING = "in flight"
    COMMITTING = "being committed"
    COMMITTED = "committed"


@dataclass(frozen=True)
class Limits:
    """What bounds admission.

    Attributes:
        per_prompt: rollouts of a group.
        per_step: groups that a step trains.
        rollouts: most rollouts in flight.
        groups: most groups in flight; None for as many as the rollouts allow.
        staleness: versions that a trained group may be behind.
        steps: optimizer steps of the run.
    """

    per_prompt: int
    per_step: int
    rollouts: int
    groups: int | None
    staleness: int
    steps: int


class Ledger:
    """All groups of a run.

    Args:
        limits: what bounds admission.
        version: of the weights that are served.
    """

    def __init__(self, limits: Limits, version: int = 0) -> None:
        self.limits = limits
        self.version = version
        self.counts = Counts()
        # Of groups that are not over; what is over is forgotten, so that a long run stays small.
        self._phases: dict[str, Phase] = {}
        self._groups: dict[str, Reservation] = {}
        self._owners: dict[str, str] = {}
        self._retries: deque[tuple[Prompt, int]] = deque()
        self._outstanding = 0
        self._trained = 0

    @property
    def in_flight(self) -> int:
        """Rollouts in flight: of groups whose rows are not committed yet."""
        return len(self.groups(Phase.RUNNING, Phase.COMMITTING)) * self.limits.per_prompt

    @property
    def outstanding(self) -> int:
        """Prompts that were taken and are neither trained nor dropped."""
        return self._outstanding

    def groups(self, *phases: Phase) -> list[Reservation]:
        """The groups that stand there, in the order of their reservation."""
        return [self._groups[name] for name, phase in self._phases.items() if phase in phases]

    def phase(self, group: Reservation) -> Phase | None:
        """Where a group stands; None for one that is over."""
        return self._phases.get(group.group)

    def owner(self, row: str) -> Reservation | None:
        """The group of a row of the data plane; None where that is over, or there never was one."""
        return self._groups[self._owners[row]] if row in self._owners else None

    def admits(self) -> bool:
        """Whether a group may be reserved now: one that is tried again, or a new prompt's."""
        limits = self.limits
        most = limits.rollouts // limits.per_prompt
        if limits.groups is not None:
            most = min(most, limits.groups)
        if self.in_flight >= most * limits.per_prompt:
            return False
        return bool(self._retries) or self.wants_prompt()

    def wants_prompt(self) -> bool:
        """Whether the run needs another prompt, and the staleness window has room for it."""
        ahead = (self.limits.staleness + 1) * self.limits.per_step
        wanted = self.limits.steps * self.limits.per_step - self._trained
        return self._outstanding < min(ahead, wanted)

    def retry(self) -> Reservation | None:
        """Reserve the group that has waited longest to be tried again; None where none waits."""
        return self._reserve(*self._retries.popleft()) if self._retries else None

    def reserve(self, prompt: Prompt) -> Reservation:
        """Reserve a new prompt's group."""
        self._outstanding += 1
        return self._reserve(prompt, 0)

    def _reserve(self, prompt: Prompt, attempt: int) -> Reservation:
        name = f"p{prompt.number:06d}-{attempt}"
        ids = tuple(f"{name}-{rollout}" for rollout in range(self.limits.per_prompt))
        group = Reservation(name, prompt, attempt, ids, self.version)
        self._phases[name], self._groups[name] = Phase.RUNNING, group
        self._owners.update(dict.fromkeys(ids, name))
        self.counts.reserved += 1
        self.counts.in_flight = max(self.counts.in_flight, self.in_flight)
        return group

    def committing(self, group: Reservation) -> None:
        """The group's rows are about to be written."""
        self._require(group, Phase.RUNNING)
        self._phases[group.group] = Phase.COMMITTING

    def committed(self, group: Reservation) -> None:
        """The group's rows are in the data plane."""
        self._require(group, Phase.COMMITTING)
        self._phases[group.group] = Phase.COMMITTED
        self.counts.committed += 1

    def failed(self, group: Reservation, *, again: bool) -> None:
        """A group in flight failed; ``again`` has its prompt tried again, else it is dropped."""
        self._end(group, Phase.RUNNING, Phase.COMMITTING)
        if again:
            self._retries.append((group.prompt, group.attempt + 1))
            self.counts.retried += 1
        else:
            self.counts.replaced += 1
            self._drop()

    def dropped(self, group: Reservation, *, stale: bool) -> None:
        """A group is not trained on: it is too old, or holds nothing to train on."""
        self._end(group, *Phase)
        self.counts.dropped_stale += stale
        self._drop()

    def stale(self, group: Reservation, version: int | None = None) -> bool:
        """Whether a group is too old to be trained on now.

        Args:
            group: the group.
            version: of the oldest weights of its tokens; None takes its reservation's.
        """
        oldest = group.version if version is None else version
        return oldest < self.version - self.limits.staleness

    def trained(self, groups: Iterable[Reservation], staleness: Iterable[int]) -> None:
        """Groups were trained on, so many versions behind the policy's weights."""
        for group in groups:
            self._end(group, Phase.COMMITTED)
            self._outstanding -= 1
            self._trained += 1
            self.counts.trained += 1
        self.counts.staleness += staleness

    def advance(self, version: int) -> list[Reservation]:
        """The engines serve another version; returns the groups that are too old for it by now."""
        self.version = version
        return [group for group in self.groups(*Phase) if self.stale(group)]

    def take_counts(self) -> Counts:
        """What happened since the last call."""
        taken, self.counts = self.counts, Counts(in_flight=self.in_flight)
        return taken

    def _drop(self) -> None:
        self._outstanding -= 1
        self.counts.dropped += 1

    def _require(self, group: Reservation, *phases: Phase) -> None:
        if (now := self.phase(group)) not in phases:
            wanted = " or ".join(phase.value for phase in phases)
            found = "over" if now is None else now.value
            raise ValueError(f"group {group.group} is {found}, not {wanted}")

    def _end(self, group: Reservation, *phases: Phase) -> None:
        self._require(group, *phases)
        del self._phases[group.group], self._groups[group.group]
        for row in group.ids:
            del self._owners[row]
