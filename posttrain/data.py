"""Read a dataset in NeMo Gym's JSON-lines form, refusing rows that could not be verified."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One task.

    Attributes:
        index: position among the dataset's rows, from 0.
        raw: the whole JSON object, as Gym's agent wants it.
    """

    index: int
    raw: dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Read and check all rows of the dataset at `path`. Blank lines are no rows.

    Raises:
        DataError: the file is missing, unreadable or without a row; or a line is not one JSON
            object with a non-empty `responses_create_params.input`, the texts `question` and
            `expected_answer`, and the agent's name in `agent_ref`.
    """
    rows: list[Row] = []
    for place, raw in read_objects(path):
        _check(raw, place)
        rows.append(Row(len(rows), raw))
    return rows


def read_objects(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read the JSON objects of the JSON-lines file at `path`, each with its place for errors.

    Blank lines are no rows.

    Raises:
        DataError: the file is missing, unreadable or without a row; or a line is not one JSON
            object, each key of which appears once.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            asked=f"dataset {path}",
            found=error.strerror or str(error),
            todo="correct the dataset's path in the recipe",
        ) from error
    lines = content.split(b"\n")  # only a line feed ends a line of JSON lines
    places = (
        (f"dataset {path}, line {number}", line) for number, line in enumerate(lines, start=1)
    )
    objects = [(place, _parse(line, place)) for place, line in places if line.strip()]
    if not objects:
        raise DataError(
            asked=f"dataset {path}",
            found=f"no rows ({len(content)} bytes)",
            todo="give at least one row, one JSON object a line",
        )
    return objects


def check_agent(rows: Sequence[Row], name: str) -> None:
    """Refuse rows that are meant for another agent than the one they would be sent to.

    Raises:
        DataError: naming the first such row.
    """
    for row in rows:
        found = row.raw["agent_ref"]["name"]
        if found != name:
            raise DataError(
                f"row {row.index}: a task for the agent {name!r}",
                f"agent_ref.name {found!r}",
                "send each agent's rows to its own environment",
            )


def _parse(line: bytes, place: str) -> dict[str, Any]:
    try:
        raw = json.loads(
            line.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse_constant
        )
    except ValueError as error:  # broken JSON, broken UTF-8, or what the two hooks refuse
        raise DataError(
            asked=f"{place}: one JSON object", found=str(error), todo="correct the line"
        ) from error
    if not isinstance(raw, dict):
        raise DataError(
            asked=f"{place}: one JSON object",
            found=f"a JSON {type(raw).__name__}",
            todo="write one object a line, in Gym's form",
        )
    return raw


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"keys that appear twice: {', '.join(twice)}")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check(raw: dict[str, Any], place: str) -> None:
    params = raw.get("responses_create_params")
    if not isinstance(params, dict) or not params.get("input"):
        raise DataError(
            asked=f"{place}: responses_create_params with a non-empty input",
            found=_describe(raw, "responses_create_params"),
            todo='give {"input": [{"role": "user", "content": ...}]}',
        )
    for key in ("question", "expected_answer"):
        value = raw.get(key)
        if not isinstance(value, str) or not value.strip():
            raise DataError(
                asked=f"{place}: {key} as a non-empty text",
                found=_describe(raw, key),
                todo=f"give {key} as a text; the verifier compares with it",
            )
    agent = raw.get("agent_ref")
    if not isinstance(agent, dict) or not isinstance(agent.get("name"), str) or not agent["name"]:
        raise DataError(
            asked=f"{place}: agent_ref with the agent's name",
            found=_describe(raw, "agent_ref"),
            todo='give {"type": "responses_api_agents", "name": ...}',
        )


def _describe(raw: dict[str, Any], key: str) -> str:
    return f"{key} = {json.dumps(raw[key])}" if key in raw else f"no key {key!r}"
