"""What triage needs of the files in a run folder, of whatever version of the harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict

from exacthead.verdict import Verdict  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from pathlib import Path


class Record(BaseModel):
    """Part of a file; further keys are another version's business."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Head(Record):
    """The head that was planned for."""

    commit: str
    dirty: bool


class Item(Record):
    """One planned item."""

    id: str
    kind: str


class Plan(Record):
    """plan.json of a run."""

    head: Head
    runner: str
    items: tuple[Item, ...]


class Provenance(Record):
    """provenance.json of a run."""

    changed: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class Result(Record):
    """result.json of an item."""

    verdict: Verdict
    seconds: float | None = None


AnyRecord = TypeVar("AnyRecord", bound=Record)


def read(model: type[AnyRecord], path: Path) -> AnyRecord:
    """Read a JSON file as one of the records.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such record.
    """
    return model.model_validate_json(path.read_bytes())
