"""metrics.jsonl read as data: one flat JSON object a step, each value kept with its own type."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Value = bool | int | float | str


@dataclass(frozen=True)
class Point:
    """One recorded value of one metric."""

    step: int
    value: Value


@dataclass(frozen=True)
class Metrics:
    """What was recorded.

    Attributes:
        steps: the step of each line, strictly increasing.
        series: the recorded points of each metric, in the order of their steps; never empty.
    """

    steps: tuple[int, ...] = ()
    series: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)


class State(StrEnum):
    """What became of the metrics file."""

    RECORDED = "recorded"
    MISSING = "missing"
    EMPTY = "empty"
    BROKEN = "broken"


@dataclass(frozen=True)
class Recording:
    """A metrics file after reading.

    Attributes:
        state: whether the file is there, has lines, and is whole.
        metrics: every line that was read; of a broken file, those before the first broken line.
        problem: what is wrong with the file, in words; empty only when it is ``recorded``.
    """

    state: State
    metrics: Metrics
    problem: str = ""


class _BrokenLineError(Exception):
    """A line that is no step."""


def read(path: Path) -> Recording:
    """Read ``path``; a damaged file is an outcome that names its line, not an exception.

    NaN and infinities are kept as data, so that the checks on them fail by name.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # A pipe would keep us waiting for ever.
            problem = f"{path.name} cannot be read: it is no regular file"
            return Recording(State.BROKEN, Metrics(), problem)
        content = path.read_bytes()
    except FileNotFoundError:
        return Recording(State.MISSING, Metrics(), f"{path.name} is missing: nothing was recorded")
    except OSError as error:
        problem = f"{path.name} cannot be read: {error.strerror}"
        return Recording(State.BROKEN, Metrics(), problem)
    if not content.strip():
        return Recording(State.EMPTY, Metrics(), f"{path.name} is empty: nothing was recorded")

    steps: list[int] = []
    series: dict[str, list[Point]] = {}
    state, problem = State.RECORDED, ""
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            step, values = _step(line, steps[-1] if steps else None)
        except _BrokenLineError as error:
            state, problem = State.BROKEN, f"{path.name}, line {number}: {error}"
            break
        steps.append(step)
        for name, value in values.items():
            series.setdefault(name, []).append(Point(step, value))
    frozen = {name: tuple(points) for name, points in series.items()}
    return Recording(state, Metrics(tuple(steps), frozen), problem)


def _step(line: bytes, previous: int | None) -> tuple[int, dict[str, Value]]:
    row = _object(line)
    if "step" not in row:
        raise _BrokenLineError("it has no 'step'")
    step = row.pop("step")
    # A boolean is an int to Python, not to a reader of metrics.
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise _BrokenLineError(f"'step' is {json.dumps(step)}, not a whole number from 0 on")
    if previous is not None and step == previous:
        raise _BrokenLineError(f"step {step} appears twice")
    if previous is not None and step < previous:
        raise _BrokenLineError(f"step {step} comes after step {previous}")
    values: dict[str, Value] = {}
    for name, value in row.items():
        if not isinstance(value, bool | int | float | str):
            raise _BrokenLineError(
                f"{name!r} is {_kind(value)}; a value is a number, a text or a boolean"
            )
        values[name] = value
    return step, values


def _object(line: bytes) -> dict[str, object]:
    if not line.strip():
        raise _BrokenLineError("it is blank")
    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=_distinct)
    except RecursionError:
        raise _BrokenLineError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise _BrokenLineError(f"it is not UTF-8 at byte {error.start}") from error
    except ValueError as error:  # also Python's limit on the digits of an integer
        raise _BrokenLineError(f"it is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _BrokenLineError(f"it is {_kind(row)}, not an object")
    return row


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, value in pairs:
        if name in row:
            raise _BrokenLineError(f"{name!r} appears twice in one object")
        row[name] = value
    return row


def _kind(value: object) -> str:
    if value is None:
        return "null"
    words = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return words.get(type(value), "a number")
