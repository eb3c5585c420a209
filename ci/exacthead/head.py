"""The head under test: commit, tree, and whether the checkout is exactly that."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path

# A git hook sets these; they would make git look at another repository than the folder's own.
_ELSEWHERE = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX"),
    }
)
# Whatever the user's own settings say of untracked files and submodules.
_STATUS = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")


@dataclass(frozen=True)
class Head:
    """A commit and the state of the checkout against it.

    ``dirty`` is true when tracked files differ or untracked, not ignored files exist.
    """

    commit: str
    tree: str
    dirty: bool

    def __str__(self) -> str:
        return self.commit[:12] + ("-dirty" if self.dirty else "")


def git(root: Path, *args: str) -> str:
    """Run git in ``root`` and return its standard output without the line end.

    Raises:
        HarnessError: git is not there or failed, in its own words.
    """
    asked = f"git {' '.join(args)} in {root}"
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *args],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise HarnessError(asked, "no git on PATH", "apt-get install git") from None
    if done.returncode != 0:
        raise HarnessError(
            asked,
            done.stderr.strip() or f"exit code {done.returncode}",
            "run inside a git checkout that has at least one commit",
        )
    return done.stdout.rstrip("\n")


def read_head(root: Path) -> Head:
    """Read the head of the checkout at ``root``."""
    commit, tree = git(root, "rev-parse", "HEAD", "HEAD^{tree}").split()
    return Head(commit=commit, tree=tree, dirty=bool(git(root, *_STATUS)))


def read_changes(root: Path) -> str:
    """What makes a checkout dirty, as text: git's list of paths, then the tracked differences."""
    listed = git(root, *_STATUS)
    if not listed:
        return ""
    difference = git(root, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-color")
    return f"{listed}\n\n{difference}\n"


def changed_paths(changes: str) -> list[str]:
    """The paths that :func:`read_changes` listed."""
    return [line[3:] for line in changes.split("\n\n", 1)[0].splitlines()]
