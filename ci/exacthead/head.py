"""The head under test: commit, tree, and whether the checkout is exactly that."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path


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
    """Run git in ``root`` and return its standard output, stripped; errors keep git's own words."""
    done = subprocess.run(
        ["git", "-C", str(root), *args], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise HarnessError(
            f"git {' '.join(args)} in {root}",
            done.stderr.strip() or f"exit code {done.returncode}",
            "run inside a git checkout that has at least one commit",
        )
    return done.stdout.strip()


def read_head(root: Path) -> Head:
    """Read the head of the checkout at ``root``."""
    commit, tree = git(root, "rev-parse", "HEAD", "HEAD^{tree}").split()
    return Head(commit=commit, tree=tree, dirty=bool(git(root, "status", "--porcelain")))
