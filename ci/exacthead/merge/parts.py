"""Parts: the run folders that are merged, and what each of them says of the items of its plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.plan import read_plan
from exacthead.runs.files import read_json
from exacthead.runs.folder import ItemFolder, RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exacthead.plan import Item, Plan
    from exacthead.runs.provenance import Provenance
    from exacthead.runs.result import ItemResult

# In an item's folder of a merged run: which attempts there were, the last one first to be read.
ATTEMPTS = "attempts.json"
_PLAN = "plan.json"


@dataclass(frozen=True)
class Attempt:
    """One time that an item was run.

    Attributes:
        item: as that run's plan had it.
        run: the id of the run.
        started: when that began, UTC, ISO 8601.
        folder: the item's folder there.
        result: what became of it.
    """

    item: Item
    run: str
    started: str
    folder: Path
    result: ItemResult

    @property
    def order(self) -> tuple[str, str]:
        """By time, and by name where two began at once: the same on every machine."""
        return self.started, self.run


@dataclass(frozen=True)
class Part:
    """One run folder.

    Attributes:
        folder: where it lies.
        plan: what it was to run.
        provenance: what it used; None when it ended before it could tell.
        attempts: what became of its items, each in the order of its attempts.
        lost: items that it never came to, and why.
    """

    folder: RunFolder
    plan: Plan
    provenance: Provenance | None
    attempts: tuple[Attempt, ...]
    lost: dict[str, str]


def find_parts(folders: Iterable[Path]) -> tuple[list[Part], list[str]]:
    """The run folders at or below some folders, each once, and what is wrong with others.

    A folder that cannot be read costs only itself: its items will be missed by name.
    """
    parts: dict[Path, Part] = {}
    problems = []
    for folder in folders:
        found = False
        for path in _run_folders(folder):
            found = True
            try:
                parts.setdefault(path.resolve(), read_part(path))
            except HarnessError as error:
                problems.append(f"{path.name} cannot be read: {error.found}")
        if not found:
            problems.append(f"{folder} holds no run folder")
    return sorted(parts.values(), key=lambda part: part.folder.run_id), problems


def _run_folders(folder: Path) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        if _PLAN in files:
            names.clear()
            yield Path(place)
        names.sort()


def read_part(path: Path) -> Part:
    """Read a run folder, of a single run or of a merged one.

    Raises:
        HarnessError: its plan or a result is none, or is not what it was.
    """
    folder = RunFolder(path)
    plan = read_plan(path / _PLAN)
    told = (path / "provenance.json").exists()
    provenance = folder.read_provenance() if told else None
    attempts: list[Attempt] = []
    lost: dict[str, str] = {}
    for item in plan.items:
        place = folder.item_path(item.id)
        if (place.path / ATTEMPTS).exists():
            attempts += _attempts(item, place)
        elif place.result.exists():
            started = provenance.started if provenance else _started(folder.run_id)
            attempts.append(Attempt(item, folder.run_id, started, place.path, place.read_result()))
        else:
            lost[item.id] = f"run {folder.run_id} never came to it: it is {folder.state()}"
    return Part(folder, plan, provenance, tuple(attempts), lost)


def _attempts(item: Item, place: ItemFolder) -> list[Attempt]:
    """The attempts that an item's folder of a merged run tells of."""

    def made(data: list[dict[str, Any]]) -> list[Attempt]:
        return [
            Attempt(
                item,
                str(each["run"]),
                str(each["started"]),
                place.path / str(each["folder"]),
                ItemFolder(place.path / str(each["folder"])).read_result(),
            )
            for each in data
        ]

    todo = "give a folder that a run of this harness has written"
    return read_json(place.path / ATTEMPTS, made, todo)


def _started(run_id: str) -> str:
    """The time in a run's id, ``YYYYMMDD-HHMMSS-...``, as provenances write it."""
    stamp = run_id[:15]
    if len(run_id) < len("YYYYMMDD-HHMMSS") or not stamp.replace("-", "").isdecimal():
        return ""
    day, time = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}", stamp[9:]
    return f"{day}T{time[:2]}:{time[2:4]}:{time[4:]}+00:00"
