"""The recipe's keys about the learning rate over the steps."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from posttrain.config.keys import Section
from posttrain.config.problem import wrong

Count = Annotated[int, Field(ge=1)]


class Schedule(Section):
    """What the learning rate is multiplied by at each step: see ``posttrain.policy.schedule``."""

    kind: Literal["constant", "linear", "cosine"] = Field(
        description="how the learning rate falls after the warm-up"
    )
    warmup_steps: int = Field(
        ge=0, description="steps in which the learning rate rises linearly to `policy.lr`"
    )
    steps: Count = Field(
        description="steps until a fall has come to its end, warm-up included; not read by"
        " `constant`"
    )
    final: float = Field(
        ge=0,
        le=1,
        description="share of `policy.lr` that a fall ends and stays at; not read by `constant`",
    )

    @model_validator(mode="after")
    def _fall_after_the_warmup(self) -> Self:
        if self.kind != "constant" and self.warmup_steps >= self.steps:
            raise wrong(
                "warmup_steps",
                f"nothing is left of {self.steps} steps to fall in; give fewer, or more"
                " policy.schedule.steps",
            )
        return self
