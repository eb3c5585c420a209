"""Packing: which items may run at the same time, by the resources that they ask for."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.tables import Runner

DEVICES = "CUDA_VISIBLE_DEVICES"
# What is declared as 0.1 + 0.2 must fit into 0.3.
_ROUNDING_GB = 1e-6


@dataclass(frozen=True)
class Asked:
    """What one item asks for; memory in GB of 10^9 bytes."""

    cpus: float = 1
    memory_gb: float = 1.0
    accelerators: int = 0


@dataclass(frozen=True)
class Capacity:
    """What there is for items that run at once; memory in GB of 10^9 bytes.

    Attributes:
        jobs: how many of them at most.
        cpus: processors.
        memory_gb: memory.
        devices: the accelerators, as ``CUDA_VISIBLE_DEVICES`` names them; each goes to one item.
    """

    jobs: int = 1
    cpus: float = math.inf
    memory_gb: float = math.inf
    devices: tuple[str, ...] = ()

    @classmethod
    def of(cls, runner: Runner, jobs: int, inherited: Mapping[str, str] = os.environ) -> Capacity:
        """All of a runner; the accelerators are those that the harness itself may see.

        Args:
            runner: the machine's resources.
            jobs: how many items at most.
            inherited: the harness's own variables.
        """
        seen = [each.strip() for each in inherited.get(DEVICES, "").split(",") if each.strip()]
        every = seen or [str(number) for number in range(runner.accelerators)]
        return cls(jobs, runner.cpus, runner.memory_gb, tuple(every[: runner.accelerators]))


@dataclass
class Packing:
    """What of a capacity is taken. Not thread-safe: one thread starts items and sees them end."""

    capacity: Capacity
    _taken: dict[str, tuple[Asked, tuple[str, ...]]] = field(default_factory=dict, init=False)

    @property
    def full(self) -> bool:
        """Whether as many items run as may, whatever they ask for."""
        return len(self._taken) >= self.capacity.jobs

    def take(self, item_id: str, asked: Asked) -> tuple[str, ...] | None:
        """Take what an item asks for; its accelerators, or None when it has to wait.

        An item that asks for more than there is runs alone: to refuse it was preflight's to do.
        """
        used = [each for each, _ in self._taken.values()]
        free = [name for name in self.capacity.devices if name not in self._devices()]
        fits = (
            not self.full
            and sum(each.cpus for each in used) + asked.cpus <= self.capacity.cpus
            and sum(each.memory_gb for each in used) + asked.memory_gb
            <= self.capacity.memory_gb + _ROUNDING_GB
            and (asked.accelerators <= len(free) or not self.capacity.devices)
        )
        if used and not fits:
            return None
        given = tuple(free[: asked.accelerators])
        self._taken[item_id] = (asked, given)
        return given

    def give_back(self, item_id: str) -> None:
        """What an item had is free again."""
        del self._taken[item_id]

    def _devices(self) -> set[str]:
        return {name for _, devices in self._taken.values() for name in devices}
