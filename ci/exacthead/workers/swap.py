"""Swaps: a local build of a pinned version (``2.13.0+cpu``) taken from a find-links folder.

PyPI's torch is the CUDA build. On a machine that has the CPU build of the same version, the worker
of flavour ``cpu`` is a third of the size with it. A swap is made only when it is certain what it
changes: the wheel's own metadata says what the build needs, and the comments of the lock say who
asks for every other distribution. What nothing asks for any more (the CUDA libraries) is left out;
what the wheel needs must be in the lock at a version that it accepts, else there is no swap and a
note says why.
"""

from __future__ import annotations

import functools
import hashlib
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    parse_wheel_filename,
)
from packaging.version import Version

from exacthead.errors import HarnessError
from exacthead.workers.lock import ASKED, body, entries, pins, wanted_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from exacthead.workers.spec import Interpreter


@dataclass(frozen=True)
class Swapped:
    """A lock after its swaps: its text without comments, each swap in words, and notes."""

    lock: str
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Offer:
    name: str
    version: Version
    wheel: Path
    needs: tuple[Requirement, ...]


def swap_local_builds(
    lock: str,
    local: str,
    folders: Iterable[Path],
    interpreter: Interpreter,
    excludes: Iterable[str] = (),
) -> Swapped:
    """Replace pins of ``lock`` by local builds of the same version where a folder has one.

    Args:
        lock: the text of a lock with its comments.
        local: the local part of a version that is wanted, such as ``cpu``.
        folders: find-links folders.
        interpreter: the Python whose tags a wheel must match.
        excludes: distributions that the worker goes without.

    Raises:
        HarnessError: a wheel that would be taken cannot be read.
    """
    pinned = pins(lock)
    left_out: set[str] = {canonicalize_name(name) for name in excludes}
    taken: dict[str, _Offer] = {}
    notes = []
    for offer in _offers(pinned, local, folders, interpreter):
        missing = _unmet(offer, pinned, left_out)
        if missing:
            notes.append(
                f"{offer.name} {offer.version} from find-links is not used: {'; '.join(missing)}"
            )
        else:
            taken[offer.name] = offer
    if not taken:
        return Swapped(body(lock), notes=tuple(notes))
    kept = _still_asked_for(lock, taken)
    found = entries(lock)
    sources = []
    for name, offer in sorted(taken.items()):
        digest = _sha256(offer.wheel)
        found[name] = f"{name}=={offer.version} \\\n    --hash=sha256:{digest}\n"
        sources.append(f"{name} {offer.version} from find-links sha256:{digest}")
    text = "".join(lines for name, lines in found.items() if name in kept)
    return Swapped(body(text), tuple(sources), tuple(notes))


def _offers(
    pinned: Mapping[str, str], local: str, folders: Iterable[Path], interpreter: Interpreter
) -> list[_Offer]:
    """One wheel for each pin that a folder has a fitting local build of, in the pins' order."""
    rank = {tag: index for index, tag in enumerate(_tags(interpreter))}
    best: dict[str, tuple[int, Path, Version]] = {}
    for folder in folders:
        for wheel in sorted(folder.glob(f"*+{local}*.whl")):
            try:
                name, version, _, tags = parse_wheel_filename(wheel.name)
            except InvalidWheelFilename:
                continue
            if version.local != local or pinned.get(name) != version.public:
                continue
            ranks = [rank[tag] for tag in tags if tag in rank]
            # The first folder wins, as with pip, when two wheels fit equally well.
            if ranks and (name not in best or min(ranks) < best[name][0]):
                best[name] = (min(ranks), wheel, version)
    return [
        _Offer(name, version, wheel, _needs(wheel, name, interpreter))
        for name, (_, wheel, version) in sorted(best.items())
    ]


def _tags(interpreter: Interpreter) -> list[Tag]:
    """The wheel tags that the interpreter accepts, best first; this machine's platforms."""
    major, minor = (int(part) for part in interpreter.version.split(".")[:2])
    name = f"cp{major}{minor}"
    return [
        *cpython_tags((major, minor), [name]),
        *compatible_tags((major, minor), interpreter=name),
    ]


def _needs(wheel: Path, name: str, interpreter: Interpreter) -> tuple[Requirement, ...]:
    """What the wheel's metadata asks for on this interpreter, without extras."""
    asked = f"the metadata of {wheel.name}, which find-links offers"
    todo = "remove or replace the file in the find-links folder"
    try:
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (
                item
                for item in archive.namelist()
                if item.endswith(".dist-info/METADATA") and item.count("/") == 1
            )
            raw, _ = parse_email(archive.read(member))
    except (zipfile.BadZipFile, ValueError) as error:
        raise HarnessError(asked, f"not a wheel: {error}", todo) from error
    if canonicalize_name(raw.get("name", "")) != name:
        raise HarnessError(asked, f"the name {raw.get('name')!r}", todo)
    version = Version(interpreter.version)
    environment = {
        "python_version": f"{version.major}.{version.minor}",
        "python_full_version": interpreter.version,
        "implementation_version": interpreter.version,
        "extra": "",
    }
    requirements = (Requirement(line) for line in raw.get("requires_dist", []))
    return tuple(
        requirement
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate(environment)
    )


def _unmet(offer: _Offer, pinned: Mapping[str, str], left_out: set[str]) -> list[str]:
    """What the build needs and the lock does not have, in words."""
    unmet = []
    for need in offer.needs:
        name = canonicalize_name(need.name)
        if name in left_out:
            continue
        if name not in pinned:
            unmet.append(f"it needs {need}, which the lock does not have")
        elif not need.specifier.contains(pinned[name], prereleases=True):
            unmet.append(f"it needs {need}, the lock has {pinned[name]}")
    return unmet


def _still_asked_for(lock: str, taken: Mapping[str, _Offer]) -> set[str]:
    """Every distribution of the lock that is declared, or needed by one that is."""
    parents = wanted_by(lock)
    needed: dict[str, set[str]] = {name: set() for name in parents}
    for name, askers in parents.items():
        for asker in askers & needed.keys():
            needed[asker].add(name)
    for name, offer in taken.items():
        needed[name] = needed.keys() & {canonicalize_name(need.name) for need in offer.needs}
    # A pin without a comment cannot be told to be unneeded.
    waiting = [name for name, askers in parents.items() if not askers or ASKED in askers]
    kept: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept.add(name)
            waiting += needed[name]
    return kept


def _sha256(path: Path) -> str:
    state = path.stat()
    return _digest(path, state.st_mtime_ns, state.st_size)


@functools.cache
def _digest(path: Path, _mtime_ns: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
