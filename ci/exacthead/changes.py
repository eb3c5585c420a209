"""Changes: how a checkout differs from its commit, told by content.

What the files of a checkout make is a git tree, staged in an index of our own: tracked files as
they are now, staged or not, and untracked ones that are not ignored. Its id tells two states apart.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.git import git, listing, names, scratch

if TYPE_CHECKING:
    from exacthead.git import Scratch

GONE = "gone"
EMPTY = "empty"
# Bytes. Larger untracked files are somebody's data, which nobody wants to read at every look.
LARGE = 25_000_000
_SUBMODULE = "160000"


@dataclass(frozen=True)
class Changes:
    """How a checkout stands against its commit.

    Attributes:
        content: the id of the tree that its files make.
        files: each changed path with its mode and blob id as they are now, or ``gone``.
        apart: each submodule with its state: ``empty``, or its own commit.
        large: each untracked file that is too large to be part of ``content``, with its bytes and
            its time of change.
        untold: what git cannot tell the content of: repositories inside the checkout, changed
            submodules, what is no file or cannot be read.
    """

    content: str
    files: dict[str, str] = field(default_factory=dict)
    apart: dict[str, str] = field(default_factory=dict)
    large: dict[str, str] = field(default_factory=dict)
    untold: tuple[str, ...] = ()

    @property
    def told(self) -> bool:
        """Whether ``content`` is everything that there is."""
        return not (self.large or self.untold)

    def unlike(self, other: Changes) -> list[str]:
        """The paths in which two states of one commit differ, as far as git can tell, sorted."""
        states = (
            self.files.items() ^ other.files.items(),
            self.apart.items() ^ other.apart.items(),
            self.large.items() ^ other.large.items(),
        )
        changed = {path for state in states for path, _ in state}
        return sorted(changed | ({*self.untold} ^ {*other.untold}))


def read_changes(root: Path) -> Changes:
    """Read how the checkout at ``root`` stands; nothing is written there.

    Raises:
        HarnessError: git's own words, for example where ``root`` is in no repository.
    """
    with scratch(toplevel(root)) as place:
        return stage(root, place)


def toplevel(root: Path) -> Path:
    """The folder of the whole checkout that ``root`` lies in."""
    return Path(git(root, "rev-parse", "--show-toplevel"))


def stage(root: Path, place: Scratch) -> Changes:
    """Stage everything that differs in ``place``, by name and id only, and say what it is."""
    index = place.root / git(place.root, "rev-parse", "--git-path", "index")
    if index.exists():
        # With its time: an edit of the same second and size is only looked for when the index is
        # not younger than the file.
        shutil.copy2(index, place.index)
    _unhide(place)
    staged = place.git("diff-index", "--cached", "--name-only", "--no-renames", "-z", "HEAD")
    edited = place.git("diff-files", "--name-only", "--ignore-submodules=dirty", "-z")
    excluded = [f"--exclude={pattern}" for pattern in _own_folders(root, place.root)]
    others = names(place.git("ls-files", "--others", "--exclude-standard", *excluded, "-z"))
    stamps = {path: _large(place.root / path) for path in others}
    large = {path: stamp for path, stamp in stamps.items() if stamp}
    found = sorted({*names(staged), *names(edited), *others} - {*large})
    # git ends the name of a repository inside the checkout with a slash.
    paths = [path for path in found if not path.endswith("/")]
    untold = {path for path in found if path.endswith("/")}
    untold |= {path for path in paths if _closed(place.root / path)}
    update(place, [path for path in paths if path not in untold], "--info-only")
    content = place.write_tree()
    apart = {path: _state(place.root / path) for path in _submodules(place)}
    untold |= {path for path, state in apart.items() if state.endswith("-dirty")}
    files = {path: now for path, (_, now) in difference(place, content).items()}
    return Changes(content, files, apart, large, tuple(sorted(untold)))


def update(place: Scratch, paths: list[str], *options: str) -> None:
    """Make the index say of ``paths`` what the checkout has there now."""
    present = [path for path in paths if _present(place.root, path)]
    gone = sorted(set(paths) - set(present))
    # What is gone goes first: a folder can have taken the place of a file.
    place.git("update-index", "--force-remove", "-z", "--stdin", stdin=listing(gone))
    add = ("update-index", *options, "--add", "--remove", "--replace", "-z", "--stdin")
    place.git(*add, stdin=listing(present))


def _own_folders(root: Path, top: Path) -> list[str]:
    """Patterns of the harness's own folders, which are no change also where nobody ignores them."""
    folders = [(root / "runs").resolve(), cache_folder(root)]
    inside = [each.relative_to(top) for each in folders if each.is_relative_to(top)]
    return ["/" + re.sub(r"([*?\[\]\\])", r"\\\1", each.as_posix()) + "/" for each in inside]


def _unhide(place: Scratch) -> None:
    """Forget the marks with which a user tells git not to look at a tracked file."""
    marks = [(line[0], line[2:]) for line in names(place.git("ls-files", "-v", "-z"))]
    unchanged = [path for mark, path in marks if mark.islower()]
    # A file that a sparse checkout leaves out is not there, and nobody misses it.
    skipped = [path for mark, path in marks if mark in "Ss" and _present(place.root, path)]
    for paths, option in ((unchanged, "--no-assume-unchanged"), (skipped, "--no-skip-worktree")):
        if paths:
            place.git("update-index", option, "-z", "--stdin", stdin=listing(paths))


def _present(root: Path, name: str) -> bool:
    """Whether a tree can hold what is at ``name`` now: a file, a link or a submodule."""
    if any((root / parent).is_symlink() for parent in Path(name).parents[:-1]):
        return False  # what is seen there lies elsewhere
    path = root / name
    return path.is_symlink() or path.is_file() or (path / ".git").exists()


def _closed(path: Path) -> bool:
    """Whether something is there that git cannot read: a pipe, a file that is not for us."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return not os.access(path, os.R_OK)
    return not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode))


def _large(path: Path) -> str:
    """Bytes and time of change of a file that is too large to be read; empty for others."""
    try:
        facts = path.lstat()
    except OSError:
        return ""  # it has gone meanwhile
    large = stat.S_ISREG(facts.st_mode) and facts.st_size > LARGE
    return f"{facts.st_size} {facts.st_mtime_ns}" if large else ""


def _submodules(place: Scratch) -> list[str]:
    lines = names(place.git("ls-files", "--stage", "-z"))
    return [line.split("\t", 1)[1] for line in lines if line.startswith(_SUBMODULE)]


def _state(path: Path) -> str:
    # Without this, git would answer for the repository around it.
    if not (path / ".git").exists():
        return EMPTY
    options = ("--porcelain=v2", "--branch", "--untracked-files=all", "--ignore-submodules=none")
    lines = git(path, "status", *options).splitlines()
    commit = next(line.split()[2] for line in lines if line.startswith("# branch.oid"))
    changed = any(not line.startswith("#") for line in lines)
    return commit + ("-dirty" if changed else "")


def difference(place: Scratch, content: str) -> dict[str, tuple[str, str]]:
    """Each path in which ``content`` differs from the commit: the blob it was, what it is now."""
    listed = names(place.git("diff-tree", "-r", "--no-renames", "--raw", "-z", "HEAD", content))
    found = {}
    # Pairs: ":mode mode blob blob status", then the path.
    for facts, path in zip(listed[::2], listed[1::2], strict=True):
        _, mode, before, after, status = facts.split()
        found[path] = (before, GONE if status == "D" else f"{mode} {after}")
    return found
