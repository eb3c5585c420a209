"""Reproduce: the plan of one item of an earlier run, at that run's head, on this machine."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.config import load
from exacthead.equip import check_machine, resolve_all
from exacthead.errors import HarnessError
from exacthead.head import changed_paths, git, read_changes, read_head
from exacthead.plan import read_plan, worker_notes
from exacthead.runs.folder import RunFolder
from exacthead.session import CHANGES
from exacthead.workers import claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.plan import Plan
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Store

_CLAIM_S = 3600.0
_SHOWN = 5


@dataclass(frozen=True)
class Past:
    """One item of an earlier run: the run's folder, and its plan reduced to that item."""

    folder: Path
    plan: Plan

    @property
    def changes(self) -> str:
        """What made that run's checkout dirty; empty when it was clean or nobody noted it."""
        path = self.folder / CHANGES
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def find(path: Path) -> Past:
    """The run folder that ``path`` (RUN/ITEM) begins with, and its item.

    Raises:
        HarnessError: there is no run folder, no such item, or the plan is not what it was.
    """
    asked = f"reproduce {path}"
    for folder in (path, *path.parents):
        if (folder / "plan.json").is_file():
            plan = read_plan(folder / "plan.json")
            item_id = path.relative_to(folder).as_posix().removeprefix("items/")
            if item_id == ".":
                found = ", ".join(item.id for item in plan.items)
                raise HarnessError(asked, "a run, but no item of it", f"add one of: {found}")
            return Past(folder, plan.only(item_id))
    raise HarnessError(asked, "no run folder there", "give RUN/ITEM as the run has printed it")


@contextmanager
def checkout(root: Path, past: Past) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A checkout of the run's head while the block runs, and how it differs from the run's.

    It is ``root`` itself where that is the same head; else a work tree in the cache folder, which
    is removed afterwards. One that a killed process left behind is replaced.
    """
    now, then = read_head(root), past.plan.head
    if now.commit == then.commit and (now == then or then.dirty):
        yield root, _changed(past, root)
        return
    differences: tuple[str, ...] = ()
    if then.dirty:
        paths = _listed(changed_paths(past.changes))
        differences = (f"the run's checkout had changes beside {then.commit[:12]}: {paths}",)
    heads = cache_folder(root) / "heads"
    heads.mkdir(parents=True, exist_ok=True)
    tree = heads / then.commit
    deadline = time.monotonic() + _CLAIM_S
    with claim.hold(heads / f"{then.commit}.lock", f"check out {tree}", deadline=deadline):
        _remove(root, tree)
        git(root, "worktree", "add", "--detach", str(tree), then.commit)
        try:
            yield tree, differences
        finally:
            _remove(root, tree)


def plan_again(
    past: Past, root: Path, store: Store, invocation: str
) -> tuple[Harness, Plan, dict[str, Spec], tuple[str, ...]]:
    """The plan with this machine's keys, its specs, and how the keys differ from the run's."""
    harness = load(root)
    plan = past.plan
    names = sorted(plan.keys)
    check_machine(harness, names, plan.flavour, store)
    specs = resolve_all(harness, names, plan.flavour)
    differences = tuple(
        f"worker {name}: key {spec.key[:12]} here, {plan.keys[name][:12]} there;"
        f" Python {spec.interpreter.version} here, {_interpreter(past, name)} there"
        for name, spec in specs.items()
        if spec.key != plan.keys[name]
    )
    again = replace(
        plan,
        head=read_head(root),
        keys={name: spec.key for name, spec in specs.items()},
        notes=worker_notes(specs),
        invocation=invocation,
    )
    return harness, again, specs, differences


def _changed(past: Past, root: Path) -> tuple[str, ...]:
    """How the changes of a dirty checkout differ between the run and now."""
    before, now = past.changes, read_changes(root)
    if before == now:
        return ()
    paths = sorted({*changed_paths(before), *changed_paths(now)})
    return (f"uncommitted changes are not those of the run: {_listed(paths)}",)


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return (", ".join(paths[:_SHOWN]) or "nobody noted which") + more


def _interpreter(past: Past, name: str) -> str:
    used = {each.name: each for each in RunFolder(past.folder).read_provenance().workers}
    return used[name].interpreter.split()[-1] if name in used else "unknown"


def _remove(root: Path, tree: Path) -> None:
    # By hand, since git knows nothing of a folder whose `worktree add` was killed.
    if tree.exists():
        shutil.rmtree(tree)
    git(root, "worktree", "prune")
