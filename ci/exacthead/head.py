"""The head under test: commit, tree, and whether the checkout is exactly that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.changes import read_changes
from exacthead.git import git

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Head:
    """A commit and the state of the checkout against it.

    Attributes:
        commit: the commit's id.
        tree: the id of its tree.
        dirty: whether tracked files differ, untracked and not ignored files exist, or there is
            something that is not told by content (a repository inside the checkout, a large file).
        content: the tree that the checkout's files make; ``tree`` unless it is dirty, and empty
            where nobody looked.
    """

    commit: str
    tree: str
    dirty: bool
    content: str = ""

    def __str__(self) -> str:
        return self.commit[:12] + ("-dirty" if self.dirty else "")


def read_head(root: Path) -> Head:
    """Read the head of the checkout at ``root``."""
    commit, tree = git(root, "rev-parse", "HEAD", "HEAD^{tree}").split()
    changes = read_changes(root)
    dirty = changes.content != tree or not changes.told
    return Head(commit=commit, tree=tree, dirty=dirty, content=changes.content)
