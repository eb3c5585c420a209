"""What recipes say to the entry points that train nothing: ``verify`` and ``accept``.

Keys that other entry points have too mean the same here; only what is honoured is in a schema.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posttrain.config.dataplane import RowsInMemory
from posttrain.config.keys import IDENTITY, Section
from posttrain.config.schema import (
    Cluster,
    Count,
    Engines,
    Interpreters,
    Model,
    Policy,
    Rollouts,
    Run,
    Seconds,
    Text,
    Timeouts,
)

_ROUNDS = "how often everything is asked; each round is a step of the metrics"


def _as(section: type[Section], key: str) -> str | None:
    """The description of a key that another entry point has too."""
    return section.model_fields[key].description


class VerifyRun(Section):
    """Where the results go and how often verdicts are asked for."""

    dir: Text = Field(description=_as(Run, "dir"))
    rounds: Count = Field(description=_ROUNDS)


class VerifyInterpreters(Section):
    """The Python of Gym's servers."""

    gym: Text = Field(description=_as(Interpreters, "gym"))


class VerifyData(Section):
    """Answers that verifiers judge."""

    answers: Annotated[Text, IDENTITY] = Field(
        description="answers with the verdict that each must get (docs/jobs.md)"
    )


class Verification(Section):
    """How verdicts are asked for."""

    concurrency: Count = Field(description="verdicts in flight at once")


class VerifyTimeouts(Section):
    """Deadlines in seconds."""

    start_s: Seconds = Field(description=_as(Timeouts, "start_s"))
    verify_s: Seconds = Field(description="all verdicts of a round")
    call_s: Seconds = Field(description=_as(Timeouts, "call_s"))


class VerifyRecipe(Section):
    """A whole recipe for ``verify``."""

    run: VerifyRun
    interpreters: VerifyInterpreters
    data: VerifyData
    verification: Verification
    timeouts: VerifyTimeouts


class AcceptRun(Section):
    """Where the results go, and what makes rollouts repeatable."""

    dir: Text = Field(description=_as(Run, "dir"))
    seed: int = Field(ge=0, lt=2**32, description=_as(Run, "seed"))
    rounds: Count = Field(description=_ROUNDS)


class AcceptInterpreters(Section):
    """The Python of each kind of process, given by the harness."""

    generation: Text = Field(description=_as(Interpreters, "generation"))
    gym: Text = Field(description=_as(Interpreters, "gym"))


class AcceptData(Section):
    """Rows that are rolled out."""

    rollouts: Annotated[Text, IDENTITY] = Field(
        description="rows to roll out, with what each rollout must be like (docs/jobs.md)"
    )


class Weights(Section):
    """The model's weights, which nobody trains."""

    dtype: Literal["float32", "bfloat16"] = Field(description=_as(Policy, "dtype"))


class AcceptTimeouts(Section):
    """Deadlines in seconds."""

    cluster_s: Seconds = Field(description=_as(Timeouts, "cluster_s"))
    start_s: Seconds = Field(description=_as(Timeouts, "start_s"))
    generate_s: Seconds = Field(description=_as(Timeouts, "generate_s"))
    call_s: Seconds = Field(description=_as(Timeouts, "call_s"))


class AcceptRecipe(Section):
    """A whole recipe for ``accept``."""

    run: AcceptRun
    cluster: Cluster
    interpreters: AcceptInterpreters
    model: Model
    data: AcceptData
    policy: Weights
    generation: Engines
    rollouts: Rollouts
    dataplane: RowsInMemory
    timeouts: AcceptTimeouts
