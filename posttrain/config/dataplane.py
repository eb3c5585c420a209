"""The recipe's keys about the data plane."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from posttrain.config.keys import Section
from posttrain.config.problem import ignored, wrong

# What `TransferQueuePlane` takes, which needs libraries that a recipe must not; a test compares.
SHORTEST_S, LONGEST_S = 3.0, 120.0
_KIND = (
    "where the rows that are trained on wait: `memory`, of the trainer's own process;"
    " `transfer_queue`, storage units of the cluster, which other processes reach too"
)


class DataPlane(Section):
    """The data plane of an entry point that uses the one that is asked for: docs/dataplane.md."""

    kind: Literal["memory", "transfer_queue"] = Field(description=_KIND)
    storage_units: Annotated[int, Field(ge=1)] = Field(
        description="storage units of `transfer_queue`, each a process; at least 2"
    )
    deadline_s: Annotated[float, Field(gt=0)] = Field(
        description="seconds that one call of the data plane may take; with `transfer_queue` from"
        f" {SHORTEST_S:g} to {LONGEST_S:g}"
    )

    @model_validator(mode="after")
    def _more_than_one_unit(self) -> Self:
        if self.kind == "transfer_queue" and self.storage_units == 1:
            raise wrong("storage_units", "`transfer_queue` spreads rows over at least 2; give more")
        return self

    @model_validator(mode="after")
    def _a_deadline_that_can_be_kept(self) -> Self:
        if self.kind == "transfer_queue" and not SHORTEST_S <= self.deadline_s <= LONGEST_S:
            bounds = f"{SHORTEST_S:g} to {LONGEST_S:g} s"
            raise wrong("deadline_s", f"`transfer_queue` keeps deadlines of {bounds}; give one")
        return self


class RowsInMemory(Section):
    """The data plane of an entry point whose rows never leave its own memory."""

    kind: Literal["memory", "transfer_queue"] = Field(description=_KIND)

    @model_validator(mode="after")
    def _in_memory(self) -> Self:
        if self.kind != "memory":
            whose = "an entry point whose rows never leave its memory"
            raise wrong("kind", ignored(whose, "'single_controller'", "memory"))
        return self
