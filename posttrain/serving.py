"""Engines and the Gym servers in front of them, as rollouts depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.stacks import request_stack_dumps

if TYPE_CHECKING:
    from posttrain.environment.servers import GymServers
    from posttrain.generation.group import GenerationGroup

# How long a process may take to answer a health check before it is said to be silent.
HEALTH_S = 2.0


@dataclass(frozen=True)
class Serving:
    """What must live for a rollout to come back.

    Attributes:
        gym: the servers.
        generation: the engines.
    """

    gym: GymServers
    generation: GenerationGroup

    def watch(self) -> None:
        """Raise when one of the processes has died.

        Raises:
            WorkerError: naming it.
        """
        self.gym.check()
        self.generation.check()

    def silent(self) -> list[str]:
        """Those that answer no health check; all processes are asked for their stacks."""
        request_stack_dumps()
        return [*self.generation.silent(HEALTH_S), *self.gym.silent(HEALTH_S)]
