"""Changes: what differs between an earlier commit and the checkout as it is now, part by part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from exacthead.changes import stage, toplevel
from exacthead.git import git, git_bytes, names, scratch
from exacthead.impact.layout import is_python
from exacthead.impact.source import changed_parts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Kind = Literal["added", "deleted", "modified"]

_SUBMODULE = "160000"
_LINK = "120000"
_KINDS: dict[str, Kind] = {"A": "added", "D": "deleted"}


@dataclass(frozen=True)
class Change:
    """One changed file; a renamed one is a deleted and an added one.

    Attributes:
        path: relative to the root.
        kind: what happened to it.
        parts: of a modified Python file, the changed parts; none when only comments or the layout
            differ. None when the file can only be judged as a whole.
    """

    path: str
    kind: Kind
    parts: frozenset[str] | None = None

    def within(self, parts: frozenset[str]) -> bool:
        """Whether something changed that is among ``parts`` of the file."""
        return self.parts is None or not self.parts.isdisjoint(parts)


@dataclass(frozen=True)
class Changes:
    """All that differs from one commit, or from any of several.

    Attributes:
        files: the changed files by path.
        untold: what changed and cannot be judged by file (a submodule), in words.
    """

    files: dict[str, Change] = field(default_factory=dict)
    untold: tuple[str, ...] = ()

    def joined(self, other: Changes) -> Changes:
        """What changed since either of two commits."""
        files = dict(self.files)
        for path, change in other.files.items():
            before = files.get(path)
            files[path] = change if before is None else _both(before, change)
        return Changes(files, tuple(dict.fromkeys((*self.untold, *other.untold))))

    def of_kind(self, kind: Kind) -> list[str]:
        """The paths to which that happened."""
        return [path for path, change in self.files.items() if change.kind == kind]


def changes_since(root: Path, commit: str) -> Changes:
    """How the checkout at ``root`` differs from ``commit``.

    What is committed, staged, edited and new counts; what git ignores does not.

    Raises:
        HarnessError: git's own words, for example for a commit that is not there.
    """
    top = toplevel(root)
    with scratch(top) as place:
        now = stage(root, place)
        listed = names(
            place.git("diff-tree", "-r", "--no-renames", "--raw", "-z", commit, now.content)
        )
        submodules = git(top, "ls-tree", "-r", "-z", commit)
    untold = [f"{path} (git cannot tell its content)" for path in now.untold]
    untold += _moved_submodules(submodules, now.apart)
    below = root.resolve().relative_to(top.resolve()).as_posix()
    prefix = "" if below == "." else f"{below}/"
    # What is too large for a tree is new: tracked files are in it whatever their size.
    files = {
        path: Change(path, "added")
        for path in (name.removeprefix(prefix) for name in now.large if name.startswith(prefix))
    }
    untold += [f"{name} (outside of the root)" for name in now.large if not name.startswith(prefix)]
    for facts, name in zip(listed[::2], listed[1::2], strict=True):
        old_mode, new_mode, *_, status = facts.lstrip(":").split()
        if _SUBMODULE in {old_mode, new_mode}:
            untold.append(f"{name} (a submodule)")
        elif _LINK in {old_mode, new_mode}:
            untold.append(f"{name} (a link)")
        elif not name.startswith(prefix):
            untold.append(f"{name} (outside of the root)")
        else:
            path = name.removeprefix(prefix)
            kind = _KINDS.get(status, "modified")
            parts = _parts(root, commit, path) if kind == "modified" and is_python(path) else None
            files[path] = Change(path, kind, parts)
    return Changes(files, tuple(dict.fromkeys(untold)))


def _parts(root: Path, commit: str, path: str) -> frozenset[str] | None:
    try:
        before = git_bytes(root, "show", f"{commit}:./{path}").decode()
        return changed_parts(before, (root / path).read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, RecursionError, OSError):
        return None


def _both(one: Change, other: Change) -> Change:
    # Added since one commit and modified since another: what there is of it can be anything.
    if one.kind != other.kind or one.parts is None or other.parts is None:
        return Change(one.path, other.kind)
    return Change(one.path, one.kind, one.parts | other.parts)


def _moved_submodules(listed: str, now: dict[str, str]) -> Iterable[str]:
    before = {}
    for line in filter(None, listed.split("\0")):
        facts, path = line.split("\t", 1)
        mode, _, commit = facts.split()
        if mode == _SUBMODULE:
            before[path] = commit
    for path, state in now.items():
        if state not in {before.get(path), "empty"}:
            yield f"{path} (a submodule)"
