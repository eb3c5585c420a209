"""The recipe's keys about token capture."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from posttrain.config.keys import Section
from posttrain.config.problem import ignored, wrong

_WHERE = "null exactly where `token_capture.enabled` is false"
_NEEDED = {
    "deadline_s": "seconds that one call to the gate or to staged tokens may take",
    "gate_memory_mb": "MiB above which the gate is restarted between steps",
    "turns": "calls of the model that one rollout may make",
}


class TokenCapture(Section):
    """Rows from the exact tokens of the engine, also of several turns: docs/capture.md."""

    enabled: bool = Field(
        description="whether rows are rebuilt from staged tokens; `interpreters.generation` is then"
        " the worker `vllm-gym`"
    )
    deadline_s: Annotated[float, Field(gt=0)] | None = Field(
        description=f"seconds that one call to the gate or to staged tokens may take; {_WHERE}"
    )
    gate_memory_mb: Annotated[int, Field(ge=1)] | None = Field(
        description="MiB in memory above which Gym's servers are restarted between steps, when no"
        f" rollout is under way; {_WHERE}"
    )
    turns: Annotated[int, Field(ge=1)] | None = Field(
        description="calls of the model that one rollout may make; with `rollouts.concurrency` it"
        f" bounds what is staged at once; {_WHERE}"
    )

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Self:
        for key, meaning in _NEEDED.items():
            given = getattr(self, key) is not None
            if self.enabled and not given:
                raise wrong(key, f"capture is on; give the {meaning}")
            if given and not self.enabled:
                off, on = "token_capture.enabled false", "token_capture.enabled true"
                raise wrong(key, ignored(off, on, "null"))
        return self

    @property
    def wanted(self) -> tuple[float, int, int]:
        """``deadline_s``, ``gate_memory_mb`` and ``turns``, where capture is on.

        Raises:
            ValueError: it is off.
        """
        if self.deadline_s is None or self.gate_memory_mb is None or self.turns is None:
            raise ValueError("capture is off, and has no settings")
        return self.deadline_s, self.gate_memory_mb, self.turns
