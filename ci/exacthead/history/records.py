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
    tree: str = ""


class Shard(Record):
    """The part of a suite that an item is."""

    suite: str
    number: int
    of: int


class Item(Record):
    """One planned item."""

    id: str
    kind: str
    shard: Shard | None = None


class Plan(Record):
    """plan.json of a run."""

    head: Head
    runner: str
    items: tuple[Item, ...]
    flavour: str = ""
    images: dict[str, str] = {}


class Worker(Record):
    """A worker as a run used it."""

    name: str
    key: str
    flavour: str
    interpreter: str = ""
    how: str = ""
    seconds: float = 0.0


class Machine(Record):
    """Where a run was."""

    cpu: str = ""
    cpus: int = 0
    memory_mb: int = 0
    accelerators: tuple[str, ...] = ()

    def __str__(self) -> str:
        memory = f"{round(self.memory_mb / 1024)} GiB"
        return ", ".join((f"{self.cpus} x {self.cpu}", memory, *self.accelerators))


class Provenance(Record):
    """provenance.json of a run."""

    changed: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    workers: tuple[Worker, ...] = ()
    images: dict[str, str] = {}
    image_seconds: dict[str, float] = {}
    machine: Machine = Machine()


class Result(Record):
    """result.json of an item."""

    verdict: Verdict
    required: bool = True
    seconds: float | None = None
    started: float | None = None
    peak_pss_mb: float = 0.0


AnyRecord = TypeVar("AnyRecord", bound=Record)


def read(model: type[AnyRecord], path: Path) -> AnyRecord:
    """Read a JSON file as one of the records.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such record.
    """
    return model.model_validate_json(path.read_bytes())
