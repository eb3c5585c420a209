"""Checkout: the files of an earlier run, here or in a work tree of the cache folder."""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.changes import EMPTY, read_changes, toplevel
from exacthead.errors import HarnessError
from exacthead.git import git
from exacthead.head import read_head
from exacthead.patch import put_back
from exacthead.workers import claim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.reproduce.past import Past

_SHOWN = 5


@contextmanager
def checkout(root: Path, past: Past) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A checkout of what the run had while the block runs, and how it differs from the run's.

    It is ``root`` itself where its files are the same; else a work tree in the cache folder, with
    the run's changes, which is removed afterwards. Two at once have a work tree each; one that a
    killed process has left behind is removed by the next.

    Raises:
        HarnessError: the run's commit is not here, or its changes are damaged.
    """
    now, then = read_head(root), past.plan.head
    if (now.commit, now.content) == (then.commit, then.content):
        yield root, _beside(past, root)
        return
    _check_commit(root, then.commit)
    top = toplevel(root)
    heads = cache_folder(root) / "heads"
    heads.mkdir(parents=True, exist_ok=True)
    _sweep(top, heads)
    with _free(heads) as tree:
        git(top, "worktree", "add", "--detach", str(tree), then.commit)
        try:
            missing = _bring_changes(past, tree)
            there = tree / root.resolve().relative_to(top)
            yield there, (*missing, *_beside(past, there))
        finally:
            _remove(top, tree)


def _check_commit(root: Path, commit: str) -> None:
    try:
        git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except HarnessError as error:
        raise HarnessError(
            f"the run's commit {commit}",
            "this repository does not have it",
            f"fetch it: git fetch REMOTE {commit}",
        ) from error


def _bring_changes(past: Past, tree: Path) -> tuple[str, ...]:
    """Put the run's changes into the clean ``tree``; what of them could not be had."""
    then, kept = past.plan.head, past.kept
    if not then.dirty:
        return ()
    if kept.note:
        return (
            f"the run's changes are missing ({_listed(sorted(kept.changes.files))}): {kept.note}",
        )
    if kept.changes.content != then.content:
        return ("the run's checkout was edited after it was planned: nobody has what was planned",)
    other = put_back(tree, kept)
    return (f"git's settings here make other files of {_listed(other)}",) if other else ()


def _beside(past: Past, root: Path) -> tuple[str, ...]:
    """What the content of the files does not cover: repositories inside the checkout."""
    here, there = read_changes(root), past.kept.changes
    states = [
        f"submodule {path}: {_state(here.apart.get(path, EMPTY))} here, {_state(state)} there"
        for path, state in sorted(there.apart.items())
        if here.apart.get(path, EMPTY) != state
    ]
    states += [
        f"large file {path}: {'another' if path in here.large else 'none'} here"
        for path, state in sorted(there.large.items())
        if here.large.get(path) != state
    ]
    if there.untold:
        states.append(f"git cannot tell what {_listed(list(there.untold))} held")
    return tuple(states)


def _state(state: str) -> str:
    return state if state == EMPTY else f"at {state[:12]}{'-dirty' * state.endswith('-dirty')}"


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return (", ".join(paths[:_SHOWN]) or "nobody noted which") + more


@contextmanager
def _free(heads: Path) -> Iterator[Path]:
    """The first place for a work tree that no other process holds."""
    for number in itertools.count():
        with claim.try_hold(heads / f"{number}.lock", "reproduce a run") as held:
            if held is not None:
                yield heads / str(number)
                return


def _sweep(top: Path, heads: Path) -> None:
    """Remove the work trees whose processes have ended."""
    for lock in heads.glob("*.lock"):
        with claim.try_hold(lock, "remove what a killed process has left") as held:
            if held is not None:
                _remove(top, lock.with_suffix(""))


def _remove(top: Path, tree: Path) -> None:
    if tree.exists():
        _open(tree)
        shutil.rmtree(tree)
    # Only ours: to prune would forget every work tree of the user's that is not mounted now.
    if f"worktree {tree}" in git(top, "worktree", "list", "--porcelain").splitlines():
        # Twice, since git keeps one locked whose making was killed.
        git(top, "worktree", "remove", "--force", "--force", str(tree))


def _open(tree: Path) -> None:
    """Let the owner into every folder, since a test may have closed one."""
    tree.chmod(0o700)
    for folder, names, _ in os.walk(tree):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
