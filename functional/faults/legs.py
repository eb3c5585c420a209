"""Which faults there are, what each is done to, and how its run has to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functional.faults import inject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unit.chaos.tree import Training

# Rollouts of a group, where one call of many has to be under way.
MANY = 16
# Failed groups that a run lives through.
PATIENCE = 12
_PLACEHOLDERS = r"(?s)controller\.budgets\.data.*placeholders only; the first: "


@dataclass(frozen=True)
class Leg:
    """One fault.

    Attributes:
        fault: puts it in, and returns once it is there.
        said: what the last word of a run must say that ends with the fault, a regular expression.
            Empty: the run lives on and ends well.
        placeholders: causes that a run that lives on must have counted, and no others; with how
            many of each, where that is certain.
        servers: what is changed about Gym's servers: see `functional.faults.servers`.
        per_prompt: rollouts of a group.
        budget: failed groups that the run lives through, of each kind.
        stages: one of these must be the run's last when the fault is in.
        within_s: seconds from the fault to the end of the run and of all its processes.
    """

    fault: Callable[[Training], inject.Injected]
    said: str = ""
    placeholders: Mapping[str, int | None] = field(default_factory=dict)
    servers: str = ""
    per_prompt: int = 2
    budget: int = 0
    stages: tuple[str, ...] = ("generation",)
    within_s: float = 90.0


LEGS = {
    "engine_idle": Leg(
        inject.engine_idle, said="generation-0 died", stages=("logprobs", "training", "refit")
    ),
    "engine_serving": Leg(inject.engine_serving, said="generation-0 died", per_prompt=MANY),
    "gate_killed": Leg(
        inject.gate_killed,
        said=r"(?s)Gym's servers .*policy_model.*killed by SIGKILL",
        per_prompt=MANY,
    ),
    "unit_killed": Leg(
        inject.unit_killed,
        said=r"unit-\d of \S+ is dead",
        per_prompt=MANY,
    ),
    "sink_failure": Leg(
        inject.sink_failure, placeholders={"worker_capture_failed": None}, budget=PATIENCE
    ),
    "wrong_bearer": Leg(
        inject.from_the_start, said=_PLACEHOLDERS + "gate_unauthorized", servers="wrong_bearer"
    ),
    "slow_gate": Leg(
        inject.from_the_start,
        # As many manifests as `functional.faults.servers` keeps back.
        placeholders={"gate_late": 3},
        servers="slow_gate",
        budget=PATIENCE,
    ),
    "edits_history": Leg(
        inject.from_the_start, said=_PLACEHOLDERS + "unresolved_parent", servers="edits_history"
    ),
    "repeats_a_call": Leg(
        inject.from_the_start, said=_PLACEHOLDERS + "unresolved_parent", servers="repeats_a_call"
    ),
}
