"""Snapshot: the commit that an image's head layer is made from, and whether it can be in one.

The head itself, or, of a dirty checkout and only when that is asked for, a commit of its content:
made in an object store of our own, with the head's date and no parents, so that equal content has
an equal id on every machine.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.changes import stage, toplevel, update
from exacthead.errors import HarnessError
from exacthead.git import git, git_bytes, listing, names, scratch
from exacthead.images.links import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.git import Scratch

_SUBMODULE, _LINK = "160000", "120000"
_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
# Bytes; the format's own limit: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LONGEST_POINTER = 1024
# Such a name tells an engine to hide a file of the layers below; the file itself is in no image:
# https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts
_WHITEOUT = ".wh."
_SHOWN = 5


@dataclass(frozen=True)
class Snapshot:
    """A commit, and where its objects are.

    Attributes:
        commit: its id; of a dirty checkout that of its content, which is no commit of the user's.
        tree: the id of its tree.
        created: the head's date, in seconds since the epoch.
        dirty: whether it is the content of a dirty checkout.
        top: the checkout.
        below: the repository's root below it, ``.`` where it is the checkout itself.
        objects: the object stores that hold it.
    """

    commit: str
    tree: str
    created: int
    dirty: bool
    top: Path
    below: str
    objects: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.commit[:12]} (content of a dirty checkout)" * self.dirty or self.commit[:12]


@contextmanager
def snapshot(root: Path, *, dirty: bool = False, revision: str = "HEAD") -> Iterator[Snapshot]:
    """The snapshot of the checkout at ``root``; what a dirty one is made of goes with the block.

    Args:
        root: the repository's root.
        dirty: whether a dirty checkout is wanted as it is.
        revision: another commit than the head, as it is.

    Raises:
        HarnessError: the checkout is dirty and that was not asked for, or its content cannot be
            told by git.
    """
    top = toplevel(root)
    below = root.resolve().relative_to(top.resolve()).as_posix()
    commit, tree, created = _commit_of(top, revision)
    with scratch(top) as place:
        store = str((top / git(top, "rev-parse", "--git-path", "objects")).resolve())
        clean = Snapshot(commit, tree, created, dirty=False, top=top, below=below, objects=(store,))
        if revision != "HEAD":
            yield clean
            return
        changes = stage(root, place)
        if changes.content == tree and changes.told:
            yield clean
            return
        beside = sorted({*changes.large, *changes.untold})
        changed = _listed([*changes.files, *beside])
        if not dirty:
            raise HarnessError(
                f"an image of the head {commit[:12]}",
                f"the checkout is not that commit: {changed}",
                "commit, or ask with --dirty for an image of the content, which is no head",
            )
        if beside:
            raise HarnessError(
                "an image of a dirty checkout",
                f"git cannot tell the content of {_listed(beside)}",
                "commit, ignore or remove these",
            )
        made = _commit(place, list(changes.files), created)
        stores = (str(place.folder / "objects"), store)
        yield Snapshot(made, changes.content, created, True, top, below, stores)  # noqa: FBT003


def _commit_of(top: Path, revision: str) -> tuple[str, str, int]:
    """The commit of a revision, its tree, and its date."""
    # A revision may come from an image's label: whatever it is, it is no option of git's.
    given = ("--verify", "--end-of-options", f"{revision}^{{commit}}")
    commit = git(top, "rev-parse", *given)
    # Unlike `show`, this has no say in a user's settings.
    head, _, _ = git(top, "cat-file", "commit", commit).partition("\n\n")
    fields = {key: value for key, _, value in (line.partition(" ") for line in head.split("\n"))}
    return commit, fields["tree"], int(fields["committer"].split()[-2])


def _commit(place: Scratch, changed: list[str], created: int) -> str:
    """Write the checkout's content into the scratch's store, as a commit that names nobody."""
    # Staged by name and id so far; only a path that is new to the index has its content stored.
    place.git("update-index", "--force-remove", "-z", "--stdin", stdin=listing(changed))
    update(place, changed)
    tree = place.git("write-tree").decode().strip()
    who = f"Exacthead <content> {created} +0000"
    text = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nThe content of a dirty checkout.\n"
    arguments = ("hash-object", "-t", "commit", "-w", "--stdin")
    return place.git(*arguments, stdin=text.encode()).decode().strip()


def check(made_from: Snapshot) -> None:
    """Refuse what an image would hold without its content, by name.

    Raises:
        HarnessError: naming each submodule, pointer of Git LFS, link that leads out, and file that
            an engine would take for the mark of a deletion.
    """
    problems = []
    small: dict[str, list[str]] = {}
    links: dict[str, list[str]] = {}
    for mode, blob, size, path in _entries(made_from):
        if any(part.startswith(_WHITEOUT) for part in path.split("/")):
            problems.append(f"{path}: a name that means a deletion in a layer, and no file")
        elif mode == _SUBMODULE:
            problems.append(f"{path}: a submodule, whose files git does not archive")
        elif mode == _LINK:
            links.setdefault(blob, []).append(path)
        elif len(_POINTER) <= size <= _LONGEST_POINTER:
            small.setdefault(blob, []).append(path)
    contents = _contents(made_from, [*small, *links])
    for blob, paths in small.items():
        if contents[blob].startswith(_POINTER):
            problems += [f"{path}: a pointer of Git LFS, not the file itself" for path in paths]
    targets = {
        path: contents[blob].decode(errors="surrogateescape")
        for blob, paths in links.items()
        for path in paths
    }
    problems += [
        f"{path}: a link to {target}, out of the repository"
        for path, target in targets.items()
        if leaves(path, targets)
    ]
    if problems:
        shown = [_printable(each) for each in sorted(problems)]
        raise HarnessError(
            f"an image of {made_from}",
            "\n    " + "\n    ".join(shown),
            "put the content itself into the repository, or remove these from it",
        )


def behind(root: Path, commit: str) -> str:
    """How the head stands to another commit, in words."""
    counted = git(root, "rev-list", "--left-right", "--count", f"{commit}...HEAD").split()
    ahead, missing = int(counted[0]), int(counted[1])
    commits = "commit" if missing == 1 else "commits"
    more = f", and {ahead} that the head has not" if ahead else ""
    # A shallow clone ends before the two meet, or joins what a merge had brought in.
    shallow = git(root, "rev-parse", "--is-shallow-repository") == "true"
    counted_here = " as far as this shallow clone can tell" if shallow else ""
    return f"{missing} {commits} behind{more}{counted_here}"


def _entries(made_from: Snapshot) -> Iterator[tuple[str, str, int, str]]:
    """Mode, id, size (0 of what has none) and path of each entry of the tree."""
    listed = _git(made_from, "ls-tree", "-r", "-l", "-z", "--full-tree", made_from.tree)
    for line in names(listed):
        facts, path = line.split("\t", 1)
        mode, _, blob, size = facts.split()
        yield mode, blob, int(size) if size != "-" else 0, path


def _contents(made_from: Snapshot, blobs: list[str]) -> dict[str, bytes]:
    """The content of each blob, asked at once."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    said = _git(made_from, "cat-file", "--batch", stdin=asked)
    found, at = {}, 0
    for blob in blobs:
        end = said.index(b"\n", at)
        size = int(said[at:end].split()[2])
        found[blob] = said[end + 1 : end + 1 + size]
        at = end + size + 2
    return found


def _git(made_from: Snapshot, *arguments: str, stdin: bytes = b"") -> bytes:
    stores = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": alternates(made_from.objects)}
    return git_bytes(made_from.top, *arguments, stdin=stdin, environment=stores)


def alternates(stores: tuple[str, ...]) -> str:
    """Object stores as git reads them from its variable: quoted, since a colon would end one."""
    escaped = (store.replace("\\", "\\\\").replace('"', '\\"') for store in stores)
    return ":".join(f'"{store}"' for store in escaped)


def _printable(text: str) -> str:
    """Text on one line, whatever a name in it holds."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(map(_printable, sorted(paths)[:_SHOWN])) + more
