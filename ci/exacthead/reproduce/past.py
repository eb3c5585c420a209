"""Past: an item of an earlier run, as its run folder tells it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from exacthead.changes import Changes
from exacthead.errors import HarnessError
from exacthead.patch import Kept, read_kept
from exacthead.plan import read_plan
from exacthead.runs.folder import RunFolder, folder_name

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.plan import Item, Plan
    from exacthead.runs.provenance import Provenance


@dataclass(frozen=True)
class Past:
    """One item of an earlier run: the run's folder, and its plan reduced to that item."""

    folder: Path
    plan: Plan

    @property
    def item(self) -> Item:
        """The item."""
        return self.plan.items[0]

    @cached_property
    def kept(self) -> Kept:
        """How the run's checkout stood; a run that kept nothing was its commit, or did not say."""
        head = self.plan.head
        return read_kept(self.folder) or Kept(
            Changes(head.tree), None, "that run kept no changes" if head.dirty else ""
        )

    @cached_property
    def provenance(self) -> Provenance | None:
        """What the run used; None when it ended before it could tell."""
        folder = RunFolder(self.folder)
        return folder.read_provenance() if (folder.path / "provenance.json").exists() else None


def find(path: Path) -> Past:
    """The run folder that ``path`` (RUN/ITEM) begins with, and its item.

    Raises:
        HarnessError: there is no run folder, no such item, or the plan is not what it was.
    """
    asked = f"reproduce {path}"
    for folder in (path, *path.parents):
        if not (folder / "plan.json").is_file():
            continue
        plan = read_plan(folder / "plan.json")
        named = path.relative_to(folder).as_posix()
        if named == ".":
            found = ", ".join(item.id for item in plan.items)
            raise HarnessError(asked, "a run, but no item of it", f"add one of: {found}")
        # As the run prints it, or as a shell completes its folder's name.
        folders = {f"items/{folder_name(item.id)}": item.id for item in plan.items}
        return Past(folder, plan.only(folders.get(named, named.removeprefix("items/"))))
    raise HarnessError(asked, "no run folder there", "give RUN/ITEM as the run has printed it")
