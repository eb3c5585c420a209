"""A contract file as data: one closed table per kind of check."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from exacthead.contracts.parts import (
    AtPoints,
    Bounds,
    Check,
    Number,
    OfMetric,
    Steps,
    TwoMetrics,
    Windowed,
)
from exacthead.contracts.points import some_steps
from exacthead.tables import Table


class Equals(AtPoints):
    """A number that is exactly ``value``, or within ``tolerance`` (absolute) of it."""

    kind: Literal["equals"]
    value: Number
    tolerance: Number = Field(default=0, ge=0)
    integer: bool = False

    @model_validator(mode="after")
    def _exact_integer(self) -> Self:
        if self.integer and not isinstance(self.value, int):
            raise ValueError(f"'integer' is asked for, but 'value' is {self.value}")
        if self.integer and self.tolerance:
            raise ValueError("an integer is counted exactly; take 'tolerance' away")
        return self

    @property
    def bound(self) -> str:
        """The value with its tolerance."""
        integer = " (an integer)" if self.integer else ""
        return f"= {self.value}" + (f" ± {self.tolerance}" if self.tolerance else "") + integer


class TextEquals(AtPoints):
    """A text that is exactly ``value``."""

    kind: Literal["text_equals"]
    value: str

    @property
    def bound(self) -> str:
        """The text in quotes."""
        return f"= {self.value!r}"


class OneOf(AtPoints):
    """A number or text that is one of ``values``."""

    kind: Literal["one_of"]
    values: Annotated[tuple[str | Number, ...], Field(strict=False, min_length=1)]

    @model_validator(mode="after")
    def _one_type(self) -> Self:
        if len({isinstance(value, str) for value in self.values}) > 1:
            raise ValueError("'values' mixes texts and numbers")
        return self

    @property
    def of_texts(self) -> bool:
        """Whether the values are texts; else they are numbers."""
        return isinstance(self.values[0], str)

    @property
    def bound(self) -> str:
        """The values."""
        return "one of " + ", ".join(repr(value) for value in self.values)


class Between(Bounds, AtPoints):
    """A finite number in a range."""

    kind: Literal["between"]

    @property
    def bound(self) -> str:
        """The range."""
        return self.range


class Sign(AtPoints):
    """A finite number of a sort that needs no bound."""

    kind: Literal["finite", "non_zero", "positive", "negative"]

    def holds(self, value: Number) -> bool:
        """Whether a finite ``value`` is of this sort."""
        return {
            "finite": True,
            "non_zero": value != 0,
            "positive": value > 0,
            "negative": value < 0,
        }[self.kind]

    @property
    def bound(self) -> str:
        """The sort in words."""
        return {
            "finite": "finite",
            "non_zero": "finite and not 0",
            "positive": "finite and > 0",
            "negative": "finite and < 0",
        }[self.kind]


class Count(Bounds, OfMetric):
    """How many points are recorded; ``value`` is short for ``min`` and ``max`` at once."""

    kind: Literal["count"]
    value: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _value_is_a_range(cls, data: Any) -> Any:
        if isinstance(data, dict) and type(data.get("value")) is int:
            if "min" in data or "max" in data:
                raise ValueError("give 'value', or 'min' and 'max', not both")
            return {**data, "min": data["value"], "max": data["value"]}
        return data

    @property
    def bound(self) -> str:
        """The number of points."""
        return f"{self.range if self.value is None else f'= {self.value}'} points"


class PresentAt(OfMetric):
    """Points at each of ``steps``; with ``exactly``, at no other."""

    kind: Literal["present_at"]
    steps: Steps
    exactly: bool = False

    @property
    def bound(self) -> str:
        """The steps."""
        only = "only " if self.exactly else ""
        return f"{only}at {some_steps(self.steps)}"


class RecordedSteps(Check):
    """The steps of the whole file, no more and no less; it reads no metric."""

    kind: Literal["recorded_steps"]
    steps: Steps

    @property
    def bound(self) -> str:
        """The steps."""
        return f"only {some_steps(self.steps)} in the file"


class Monotone(Windowed):
    """Numbers that only rise or only fall; with ``strict``, never stay."""

    kind: Literal["monotone"]
    direction: Literal["increasing", "decreasing"]
    strict: bool = False
    window: int | None = Field(default=None, ge=2)

    @property
    def bound(self) -> str:
        """The direction."""
        return f"{'strictly ' if self.strict else ''}{self.direction} over {self.over}"


class Average(Bounds, Windowed):
    """The median or the mean of a window in a range."""

    kind: Literal["median", "mean"]

    @property
    def bound(self) -> str:
        """The range and the window."""
        return f"{self.kind} of {self.over} {self.range}"


class Ratio(Bounds, Windowed):
    """At most ``max_ratio`` of the points in a window lie outside a range."""

    kind: Literal["ratio"]
    max_ratio: Number = Field(ge=0, lt=1)

    @property
    def bound(self) -> str:
        """The share, the range and the window."""
        return f"at most {self.max_ratio:.3g} of {self.over} not {self.range}"


class Trend(Bounds, Windowed):
    """The slope of a resistant line through a window, or its rise over the window, in a range."""

    kind: Literal["trend"]
    measure: Literal["growth", "slope"] = "growth"
    window: int | None = Field(default=None, ge=3)

    @property
    def bound(self) -> str:
        """The measure, the range and the window."""
        per = " a step" if self.measure == "slope" else ""
        return f"{self.measure} over {self.over} {self.range}{per}"


class Opposite(TwoMetrics):
    """Two numbers of equal magnitude, within ``tolerance`` (absolute), and opposite sign."""

    kind: Literal["opposite"]
    tolerance: Number = Field(default=0, ge=0)

    @property
    def bound(self) -> str:
        """The other metric and the tolerance."""
        return f"= -({self.other}), not 0" + (f" ± {self.tolerance}" if self.tolerance else "")


class Comparison(TwoMetrics):
    """Two texts that are the same, or that differ."""

    kind: Literal["same_as", "differs_from"]

    @property
    def bound(self) -> str:
        """The comparison."""
        return f"{'=' if self.kind == 'same_as' else '!='} {self.other}"


AnyCheck: TypeAlias = Annotated[
    Equals
    | TextEquals
    | OneOf
    | Between
    | Sign
    | Count
    | PresentAt
    | RecordedSteps
    | Monotone
    | Average
    | Ratio
    | Trend
    | Opposite
    | Comparison,
    Field(discriminator="kind"),
]


class Contract(Table):
    """The checks that a leg's metrics must satisfy; never empty, each name once."""

    name: str
    checks: Annotated[tuple[AnyCheck, ...], Field(min_length=1)]
