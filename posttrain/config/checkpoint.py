"""The recipe's keys about checkpoints."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posttrain.config.keys import Section

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]


class Checkpoint(Section):
    """What a killed run can go on from: docs/checkpoints.md."""

    every: Annotated[int, Field(ge=0)] | None = Field(
        description="steps from one checkpoint to the next, besides the one after the last step;"
        " 0 or null: none"
    )
    keep: Count | None = Field(description="how many of the newest stay; null: all")
    dir: Text = Field(description="folder of the run's checkpoints, which all ranks must see")
    resume: Text | None = Field(
        description="`auto`: go on from the newest whole one in `checkpoint.dir`, or begin where"
        " there is none; a path: go on from that one; null: begin"
    )
