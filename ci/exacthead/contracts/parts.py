"""What the kinds of checks share: a name, the points they look at, a range."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from exacthead.tables import Table


def _float_range(value: float) -> float:
    """Refuse an integer that no recorded number could be compared with."""
    if abs(value) > sys.float_info.max:
        raise ValueError("it is beyond the range of a float")
    return value


Number: TypeAlias = Annotated[int | float, AfterValidator(_float_range)]
Step: TypeAlias = Annotated[int, Field(ge=0)]
# TOML has lists only; their items stay strictly typed.
Steps: TypeAlias = Annotated[tuple[Step, ...], Field(strict=False, min_length=1)]


class Check(Table):
    """What every check has: a name, unique in its contract, and a kind."""

    # Strict: "2" and true are not the number 2. A bound of NaN bounds nothing.
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    name: str = Field(pattern=r"\S")
    kind: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the check reads."""
        return ()

    @property
    @abstractmethod
    def bound(self) -> str:
        """What is demanded, for people."""


class OfMetric(Check):
    """A check on one metric."""

    metric: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """The one metric."""
        return (self.metric,)


class AtPoints(OfMetric):
    """A check on each recorded point, or on the one at ``step``."""

    step: Step | None = None


class TwoMetrics(AtPoints):
    """A check that compares two metrics at each recorded step, or at ``step``."""

    other: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """Both metrics."""
        return (self.metric, self.other)

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.metric == self.other:
            raise ValueError("'metric' and 'other' are the same metric")
        return self


class Bounds(Check):
    """A range; each end is optional, and inclusive unless it says otherwise."""

    min: Number | None = None
    max: Number | None = None
    min_inclusive: bool = True
    max_inclusive: bool = True

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give 'min', 'max' or both")
        for end in ("min", "max"):
            if f"{end}_inclusive" in self.model_fields_set and getattr(self, end) is None:
                raise ValueError(f"'{end}_inclusive' without '{end}'")
        if self.min is not None and self.max is not None:
            point = self.min_inclusive and self.max_inclusive
            if self.min > self.max or (self.min == self.max and not point):
                raise ValueError(f"no number is {self.range}")
        return self

    def holds(self, value: Number) -> bool:
        """Whether ``value`` is in the range."""
        above = self.min is None or value > self.min or (self.min_inclusive and value == self.min)
        below = self.max is None or value < self.max or (self.max_inclusive and value == self.max)
        return above and below

    @property
    def range(self) -> str:
        """The range for people: ``>= 1.0 and < 1.001``."""
        low = "" if self.min is None else f"{'>=' if self.min_inclusive else '>'} {self.min}"
        high = "" if self.max is None else f"{'<=' if self.max_inclusive else '<'} {self.max}"
        return " and ".join(end for end in (low, high) if end)


class Windowed(OfMetric):
    """A check on the last or first ``window`` recorded points; without it, on all of them."""

    window: int | None = Field(default=None, ge=1)
    counted_from: Literal["first", "last"] = "last"

    @model_validator(mode="after")
    def _counted_points(self) -> Self:
        if "counted_from" in self.model_fields_set and self.window is None:
            raise ValueError("'counted_from' without 'window'")
        return self

    @property
    def over(self) -> str:
        """The window for people."""
        if self.window is None:
            return "all points"
        return f"the {self.counted_from} {self.window} points"
