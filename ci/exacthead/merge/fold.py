"""Fold: the folders of all attempts laid out as one run folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.errors import HarnessError
from exacthead.junit import Case
from exacthead.merge.parts import ATTEMPTS
from exacthead.patch import CHANGES, STATE
from exacthead.runs.files import write_json
from exacthead.runs.folder import ItemFolder
from exacthead.runs.provenance import Provenance, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from exacthead.merge.account import Account
    from exacthead.merge.parts import Attempt, Part
    from exacthead.plan import Plan
    from exacthead.runs.folder import RunFolder
    from exacthead.runs.provenance import WorkerUse

EARLIER = "attempts"


def fold(folder: RunFolder, accounts: Iterable[Account]) -> None:
    """Lay out every item: the attempt that counts in its place, the others below it.

    Raises:
        HarnessError: the disk is full, or an attempt cannot be read any more.
    """
    for each in accounts:
        place = folder.item(each.item.id)
        last = each.last
        told = []
        for attempt in each.attempts:
            below = "." if attempt is last else f"{EARLIER}/{attempt.run}"
            _copy(attempt, place.path / below)
            told.append({"run": attempt.run, "started": attempt.started, "folder": below})
        write_json(place.path / ATTEMPTS, told)
        place.write_result(each.result)
        if last is None:
            case = Case(each.item.id, "the item", None, each.result.verdict)
            junit.write_cases(place.junit, each.item.id, [case])


def _copy(attempt: Attempt, to: Path) -> None:
    """Copy an attempt's folder, without the earlier attempts that a merged one holds."""
    own = attempt.folder

    def leave(path: str, names: list[str]) -> set[str]:
        return {ATTEMPTS, EARLIER} & set(names) if path == str(own) else set()

    try:
        shutil.copytree(own, to, symlinks=True, dirs_exist_ok=True, ignore=leave)
    except OSError as error:
        raise HarnessError(
            f"copy {own}", str(error), "make room, or give a folder that can be read"
        ) from error
    # Its result is the item's as it was then; in its place the last word will stand.
    ItemFolder(to).write_result(attempt.result)


def keep_changes_of(parts: Sequence[Part], folder: RunFolder) -> None:
    """Keep how a dirty checkout differed, so that items of the merged run can be run again."""
    for part in parts:
        if (part.folder.path / STATE).exists():
            for name in (STATE, CHANGES):
                if (part.folder.path / name).exists():
                    shutil.copyfile(part.folder.path / name, folder.path / name)
            return


def provenance_of(plan: Plan, parts: Sequence[Part]) -> Provenance:
    """What all parts used, on whichever machines; the machine and the rest are of the merge."""
    told = [part.provenance for part in parts if part.provenance]
    here = gather(plan.head, workers=_workers(told), locks={}, fixtures={})
    return here.model_copy(
        update={
            "changed": tuple(sorted({path for each in told for path in each.changed})),
            "locks": _joined(each.locks for each in told),
            "fixtures": _joined(each.fixtures for each in told),
            "images": _joined(each.images for each in told),
            "image_seconds": _longest(each.image_seconds for each in told),
            "parts": tuple(sorted({run for part in parts for run in _runs(part)})),
        }
    )


def _runs(part: Part) -> tuple[str, ...]:
    return (part.provenance.parts if part.provenance else ()) or (part.folder.run_id,)


def _workers(told: Iterable[Provenance]) -> list[WorkerUse]:
    """Each worker once by key: built if any part had to build it, the longest wait."""
    found: dict[tuple[str, str], WorkerUse] = {}
    for use in (use for each in told for use in each.workers):
        before = found.setdefault((use.name, use.key), use)
        how = "built" if "built" in {use.how, before.how} else min(use.how, before.how)
        seconds = max(use.seconds, before.seconds)
        found[use.name, use.key] = before.model_copy(update={"how": how, "seconds": seconds})
    return [found[key] for key in sorted(found)]


def _longest(tables: Iterable[dict[str, float]]) -> dict[str, float]:
    """All entries, each with its highest value."""
    highest: dict[str, float] = {}
    for name, value in (entry for table in tables for entry in table.items()):
        highest[name] = max(value, highest.get(name, value))
    return {name: highest[name] for name in sorted(highest)}


def _joined(tables: Iterable[dict[str, str]]) -> dict[str, str]:
    """All entries; where two tables differ, both values in one."""
    values: dict[str, set[str]] = {}
    for name, value in ((name, value) for table in tables for name, value in table.items()):
        values.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(values[name])) for name in sorted(values)}
