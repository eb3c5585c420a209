"""Patch: the changes of a checkout as a run folder keeps them, and as they are put back."""

from __future__ import annotations

import os
import stat
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from exacthead.changes import Changes, difference, look, stage, toplevel, update
from exacthead.errors import HarnessError
from exacthead.git import scratch
from exacthead.runs.files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.git import Scratch

# In the folder of a run whose checkout was not simply its commit.
STATE = "changes.json"
CHANGES = "changes.diff"

# Bytes, before and after together; beyond it a run folder would be mostly somebody's data.
LIMIT = 50_000_000
_SHOWN = 3
# How the modes of plain files begin in a tree.
_FILE = "100"
_DIFFERENCE = (
    *("diff-tree", "-r", "-p", "--binary", "--full-index", "--find-renames", "--unified=3"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
_APPLY = ("apply", "--cached", "--binary", "--whitespace=nowarn", "--no-ignore-whitespace")


@dataclass(frozen=True)
class Kept:
    """The changes that a run folder holds.

    Attributes:
        changes: what had changed.
        patch: their patch against the run's commit; None when there is nothing to apply.
        note: why there is no patch, although there should be one.
        converted: changed files that git keeps in another form (line ends, filters): the id of
            their bytes as they were, by path.
    """

    changes: Changes
    patch: Path | None
    note: str = ""
    converted: dict[str, str] = field(default_factory=dict)


def keep_changes(root: Path, folder: Path, limit: int = LIMIT) -> None:
    """Keep the changes of the checkout at ``root`` in a run's folder; a clean one leaves no file.

    Args:
        root: the checkout.
        folder: gets ``changes.json`` and ``changes.diff``.
        limit: bytes of the changed files, as they were and as they are; beyond it there is no
            patch, and a note names the largest.
    """
    with scratch(toplevel(root)) as place:
        changes = stage(root, place)
        note, here = _too_large(place, changes, limit), dict[str, str]()
        if changes.files and not note:
            note = _write(place, changes, folder / CHANGES)
        here = {} if note else _bytes(place, changes)
    if changes.files or changes.apart or not changes.told:
        converted = {path: now for path, now in here.items() if now != _blob(changes, path)}
        write_json(folder / STATE, {**asdict(changes), "note": note, "converted": converted})


def read_kept(folder: Path) -> Kept | None:
    """The changes that a run's folder holds; None when it holds none.

    Raises:
        HarnessError: they cannot be read.
    """
    path = folder / STATE
    if not path.exists():
        return None
    changes, note, converted = read_json(path, _state, "name the folder of a whole run")
    patch = folder / CHANGES
    if changes.files and not note and not patch.exists():
        note = f"{patch} is gone"
    return Kept(changes, patch if patch.exists() else None, note, converted)


def _state(data: dict[str, Any]) -> tuple[Changes, str, dict[str, str]]:
    note, converted = str(data.pop("note")), dict(data.pop("converted"))
    return Changes(**{**data, "untold": tuple(data["untold"])}), note, converted


def put_back(tree: Path, kept: Kept) -> list[str]:
    """Make the files of the clean checkout ``tree`` what they were; its index stays the commit's.

    Returns:
        The paths that are not what they were all the same: settings and filters of git (line ends,
        modes, large files kept elsewhere) are the machine's, and no patch can bring them. What is
        in submodules is left out.

    Raises:
        HarnessError: what is kept does not lead to the content that the run had.
    """
    if kept.patch is None:
        return sorted(kept.changes.files)
    content = kept.changes.content
    with scratch(tree) as place:
        if _applied(place, kept.patch) != content:
            raise HarnessError(
                f"the changes in {kept.patch}",
                "they lead to another content than the run had",
                "look for the folder as the run has left it",
            )
        # By checking it out, so that attributes, filters, modes and links are as git makes them.
        place.git("read-tree", "--reset", "-u", content, own_index=True)
        place.git("read-tree", "--reset", "HEAD", own_index=True)
    with scratch(tree) as place:
        now = stage(tree, place)
        here = _bytes(place, kept.changes)
    then = {path: kept.converted.get(path, _blob(kept.changes, path)) for path in here}
    differing = (*(now.files.items() ^ kept.changes.files.items()), *(here.items() ^ then.items()))
    return sorted({path for path, _ in differing} - {*kept.changes.apart})


def _blob(changes: Changes, path: str) -> str:
    return changes.files[path].split()[-1]


def _bytes(place: Scratch, changes: Changes) -> dict[str, str]:
    """The ids of the changed files' bytes, before git converts anything."""
    facts = look(place.root, [path for path, now in changes.files.items() if now[:3] == _FILE])
    paths = [path for path, found in facts.items() if stat.S_ISREG(found.st_mode)]
    asked = b"".join(_quoted(path) + b"\n" for path in paths)
    told = place.git("hash-object", "--no-filters", "--stdin-paths", stdin=asked)
    return dict(zip(paths, told.decode().split(), strict=True))


def _quoted(path: str) -> bytes:
    """A path as git reads it from a line of its own."""
    raw = os.fsencode(path)
    for special, escaped in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        raw = raw.replace(special, escaped)
    return b'"' + raw + b'"'


def _too_large(place: Scratch, changes: Changes, limit: int) -> str:
    """Why the changes are not kept; empty when they are within the limit."""
    sizes = _sizes(place, changes)
    total = sum(sizes.values())
    if total <= limit:
        return ""
    largest = sorted(sizes, key=lambda path: (-sizes[path], path))[:_SHOWN]
    shown = ", ".join(f"{path} ({_megabytes(sizes[path])})" for path in largest)
    return (
        f"{_megabytes(total)} of changed files, more than the {_megabytes(limit)} that are kept;"
        f" the largest: {shown}"
    )


def _sizes(place: Scratch, changes: Changes) -> dict[str, int]:
    """Bytes of each changed path, as committed and as it is now together."""
    before = {path: pair[0] for path, pair in difference(place, changes.content).items()}
    asked = "".join(f"{blob}\n" for blob in before.values()).encode()
    told = place.git("cat-file", "--batch-check=%(objectsize)", stdin=asked).decode().splitlines()
    # "missing" is the answer for what was not there, and for the commit of a submodule.
    old = {path: int(size) for path, size in zip(before, told, strict=True) if size.isdigit()}
    facts = look(place.root, changes.files)
    new = {path: found.st_size for path, found in facts.items() if not stat.S_ISDIR(found.st_mode)}
    return {path: old.get(path, 0) + new.get(path, 0) for path in changes.files}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _write(place: Scratch, changes: Changes, path: Path) -> str:
    """Write the patch; why it could not be, or empty. It is tried before it is believed."""
    place.git("read-tree", "HEAD")
    update(place, list(changes.files))
    if place.write_tree() != changes.content:
        return "the checkout was changed while its changes were read"
    part = path.with_name(f".{path.name}")
    place.git(*_DIFFERENCE, f"--output={part.absolute()}", "HEAD", changes.content)
    try:
        led = _applied(place, part)
    except HarnessError as error:
        led = error.found
    if led != changes.content:
        # No reason to run nothing: a repetition elsewhere says that it cannot have them.
        part.unlink()
        return f"git has no patch that leads to them: {led}"
    part.replace(path)
    return ""


def _applied(place: Scratch, patch: Path) -> str:
    """The content that the patch makes of the commit's."""
    place.git("read-tree", "HEAD")
    try:
        place.git(*_APPLY, str(patch.absolute()))
    except HarnessError as error:
        raise HarnessError(
            f"apply {patch}", error.found, "look for the folder as the run has left it"
        ) from error
    return place.write_tree()
