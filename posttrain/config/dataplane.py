"""The recipe's keys about the data plane."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from posttrain.config.keys import Section
from posttrain.config.problem import ignored, wrong

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
        description="seconds that one call of the data plane may take"
    )

    @model_validator(mode="after")
    def _more_than_one_unit(self) -> Self:
        if self.kind == "transfer_queue" and self.storage_units == 1:
            raise wrong("storage_units", "`transfer_queue` spreads rows over at least 2; give more")
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
