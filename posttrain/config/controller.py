"""The recipe's keys about the single controller."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posttrain.config.keys import Section

Failures = Annotated[int, Field(ge=0)]


class Budgets(Section):
    """Failed groups that a run survives, by what failed."""

    infrastructure: Failures = Field(
        description="groups that may fail because a process, a connection or a deadline did; each"
        " is tried again with fresh ids; one more ends the run"
    )
    data: Failures = Field(
        description="groups that may fail because of what they contain; each drops its prompt, and"
        " another takes its place; one more ends the run"
    )


class Controller(Section):
    """How rollouts, training and refits overlap: docs/controller.md."""

    staleness: Annotated[int, Field(ge=0)] = Field(
        description="versions that the weights behind a trained group may be behind the policy's;"
        " also the steps that rollouts may be ahead of training; 0: one after the other"
    )
    groups_in_flight: Annotated[int, Field(ge=1)] | None = Field(
        description="prompts that are rolled out at once; null: as many as fit into"
        " `rollouts.concurrency`"
    )
    stall_s: Annotated[float, Field(gt=0)] = Field(
        description="seconds without any progress after which the run ends"
    )
    budgets: Budgets
