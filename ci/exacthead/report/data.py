"""The report as JSON with a published schema (report.schema.json), and read back from it."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from exacthead.errors import HarnessError
from exacthead.mask import masked
from exacthead.report import model

if TYPE_CHECKING:
    from exacthead.mask import Masker
    from exacthead.report.model import Report

NAME = "report.json"
SCHEMA = Path(__file__).with_name("report.schema.json")


@cache
def _adapter() -> TypeAdapter[Report]:
    return TypeAdapter(model.Report)


def to_json(report: Report) -> str:
    """The whole report; it satisfies :func:`schema`."""
    data = dataclasses.asdict(report)
    # What no JSON can hold must not come out as NaN, which no other reader takes.
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def without_secrets(report: Report, masker: Masker) -> Report:
    """The same report with every text in it masked."""
    return _adapter().validate_python(masked(dataclasses.asdict(report), masker))


def schema() -> str:
    """The JSON schema of the report (draft 2020-12)."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    made: dict[str, Any] = _adapter().json_schema(mode="serialization")
    title = f"The report of an Exacthead run, version {model.SCHEMA}"
    return json.dumps({"$schema": dialect, **made, "title": title}, indent=2) + "\n"


def read_report(run: Path) -> Report:
    """The report in a run folder.

    Raises:
        HarnessError: there is none, or it is of another version.
    """
    path = run / NAME
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text)
        version = found.get("schema") if isinstance(found, dict) else None
        if version != model.SCHEMA:
            todo = "read it with the harness that wrote it"
            raise HarnessError(f"the report {path}", f"version {version}", todo)
        return _adapter().validate_json(text)
    except (OSError, ValidationError, ValueError, RecursionError) as error:
        todo = "name a folder that a run of this harness has written"
        raise HarnessError(f"the report {path}", str(error), todo) from error


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
