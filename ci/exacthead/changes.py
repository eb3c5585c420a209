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
    from collections.abc import Iterable

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
    excluded = [f"--exclude={pattern}" for pattern in own_folders(root, place.root)]
    others = names(place.git("ls-files", "--others", "--exclude-standard", *excluded, "-z"))
    found = sorted({*names(staged), *names(edited), *others})
    # git ends the name of a repository inside the checkout with a slash.
    untold = {path for path in found if path.endswith("/")}
    facts = look(place.root, [path for path in found if path not in untold])
    large = {
        path: f"{facts[path].st_size} {facts[path].st_mtime_ns}"
        for path in others
        if path in facts and stat.S_ISREG(facts[path].st_mode) and facts[path].st_size > LARGE
    }
    untold |= {path for path in facts if _closed(place.root, path, facts[path].st_mode)}
    update(place, sorted({*found} - untold - {*large}), "--info-only")
    content = place.write_tree()
    apart = {path: _state(place.root / path) for path in _submodules(place)}
    untold |= {path for path, state in apart.items() if state.endswith("-dirty")}
    files = {path: now for path, (_, now) in difference(place, content).items()}
    return Changes(content, files, apart, large, tuple(sorted(untold)))


def update(place: Scratch, paths: list[str], *options: str) -> None:
    """Make the index say of ``paths`` what the checkout has there now."""
    facts = look(place.root, paths)
    present = [path for path in paths if path in facts and _holds(place.root, path, facts[path])]
    gone = sorted({*paths} - {*present})
    # What is gone goes first: a folder can have taken the place of a file.
    place.git("update-index", "--force-remove", "-z", "--stdin", stdin=listing(gone))
    add = ("update-index", *options, "--add", "--remove", "--replace", "-z", "--stdin")
    place.git(*add, stdin=listing(present))


def look(root: Path, paths: Iterable[str]) -> dict[str, os.stat_result]:
    """What lies at each of ``paths`` that is there; what is seen through a link lies elsewhere."""
    # Strings, since a checkout can have a hundred thousand new files.
    top, real, facts = str(root), {"": True}, {}

    def is_real(folder: str) -> bool:
        if folder not in real:
            seen = _lstat(f"{top}/{folder}") if is_real(folder.rpartition("/")[0]) else None
            real[folder] = seen is not None and not stat.S_ISLNK(seen.st_mode)
        return real[folder]

    for path in paths:
        if is_real(path.rpartition("/")[0]) and (seen := _lstat(f"{top}/{path}")):
            facts[path] = seen
    return facts


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _holds(root: Path, path: str, facts: os.stat_result) -> bool:
    """Whether a tree can hold it: a file, a link or a submodule."""
    mode = facts.st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or (root / path / ".git").exists()


def _closed(root: Path, path: str, mode: int) -> bool:
    """Whether git cannot read it: a pipe, a file that is not for us."""
    if stat.S_ISREG(mode):
        return not os.access(f"{root}/{path}", os.R_OK)
    return not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode))


def own_folders(root: Path, top: Path) -> list[str]:
    """Patterns of the harness's own folders, which are no change also where nobody ignores them."""
    folders = [(root / "runs").resolve(), cache_folder(root)]
    inside = [each.relative_to(top) for each in folders if each.is_relative_to(top)]
    return ["/" + re.sub(r"([*?\[\]\\])", r"\\\1", each.as_posix()) + "/" for each in inside]


def _unhide(place: Scratch) -> None:
    """Forget the marks with which a user tells git not to look at a tracked file."""
    marks = [(line[0], line[2:]) for line in names(place.git("ls-files", "-v", "-z"))]
    unchanged = [path for mark, path in marks if mark.islower()]
    # A file that a sparse checkout leaves out is not there, and nobody misses it.
    skipped = list(look(place.root, [path for mark, path in marks if mark in "Ss"]))
    for paths, option in ((unchanged, "--no-assume-unchanged"), (skipped, "--no-skip-worktree")):
        if paths:
            place.git("update-index", option, "-z", "--stdin", stdin=listing(paths))


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
