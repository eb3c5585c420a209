"""Normal form of a built layer: what a build leaves by chance is taken out, all else is kept.

Two builds of one Dockerfile differ in times, in the order of entries, in caches and logs, in which
of several hard links is written first, and in the times that byte code holds of its source. In
normal form they are the same bytes.
"""

from __future__ import annotations

import io
import re
import struct
import tarfile
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from exacthead.errors import HarnessError
from exacthead.images.layer import EPOCH, Hashing, Layer

if TYPE_CHECKING:
    from pathlib import Path

# Raise it when the same build turns into another layer; it is in the key of every environment.
VERSION = 2

# Folders that stay, empty: what is in them is of one build, one boot or one machine.
_EMPTIED = (
    *("tmp", "var/tmp", "run", "var/log", "var/cache", "var/lib/apt/lists", "root"),
    *("proc", "sys", "dev"),
)
# Files of the build itself: an engine lays its own over them, a store keeps its records there.
_DROPPED = (
    *(".", "context", "etc/resolv.conf", "etc/hosts", "etc/hostname", ".dockerenv", "etc/mtab"),
    *("var/lib/dpkg/*-old", "etc/*-", "etc/ld.so.cache~"),
    *("*/uv_cache.json", "*/site-packages/*.pyc.[0-9]*"),
    *(f"opt/exacthead/{kind}/*" for kind in ("records", "manifests", "locks", "logs")),
    *(f"opt/exacthead/{kind}/*" for kind in ("stamps", "uses", "cache", "tools")),
)
_GONE = re.compile("|".join(map(translate, (*_DROPPED, *(f"{each}/*" for each in _EMPTIED)))))
# Folders that a build touches for these alone.
_AROUND = {
    str(folder)
    for name in (*_EMPTIED, *_DROPPED)
    for folder in (PurePosixPath(name), *PurePosixPath(name).parents)
}
# Byte code: magic number, flags, then the source's time and size, all little-endian
# (https://peps.python.org/pep-0552/). Without flags the time decides.
_HEADER = struct.Struct("<4sIII")


@dataclass
class _Entry:
    member: tarfile.TarInfo
    source: tarfile.TarInfo
    links: list[str] = field(default_factory=list)


def normalise(built: BinaryIO, target: Path, made_by: str) -> Layer | None:
    """Write the normal form of a layer.

    Args:
        built: the layer's tar; it must be seekable.
        target: where the normal form is written.
        made_by: how the layer came about, for people.

    Returns:
        The layer; None where nothing is left in it.

    Raises:
        HarnessError: it is no whole tar, or the target cannot be written.
    """
    try:
        # Names are bytes: a user's locale has no say in them.
        with tarfile.open(fileobj=built, mode="r:", encoding="utf-8") as archive:
            entries = _entries(archive)
            if not any(_counts(each.member) for each in entries):
                return None
            with target.open("wb") as file:
                hashing = Hashing(file)
                with tarfile.open(
                    fileobj=hashing, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8"
                ) as out:
                    for entry in entries:
                        _write(archive, entry, out)
    except (tarfile.TarError, OSError) as error:
        target.unlink(missing_ok=True)
        raise HarnessError(
            f"a layer in normal form, {target}", str(error), "make room there, and build again"
        ) from error
    return Layer(hashing.diff_id, hashing.size, target, made_by)


def _entries(archive: tarfile.TarFile) -> list[_Entry]:
    """What stays, by name; of names of one file the first is the file, the others link to it."""
    found: dict[str, tarfile.TarInfo] = {}
    for member in archive:
        found[_name(member.name)] = member  # a later entry replaces an earlier one
    # The names of each file, by the name that the build wrote first.
    names: dict[str, list[str]] = {}
    for name, member in found.items():
        origin = _name(member.linkname) if member.islnk() else name
        names.setdefault(origin, []).append(name)
    kept = []
    for origin, linked in names.items():
        stay = sorted(name for name in linked if not _dropped(name))
        if not stay:
            continue
        source = found[origin]
        first, *others = stay
        kept.append(_Entry(_clean(source, first), source))
        for other in others:
            link = _clean(source, other)
            link.type, link.linkname, link.size = tarfile.LNKTYPE, first, 0
            kept.append(_Entry(link, source))
    return sorted(kept, key=lambda entry: entry.member.name)


def _counts(member: tarfile.TarInfo) -> bool:
    return not member.isdir() or member.name not in _AROUND


def _write(archive: tarfile.TarFile, entry: _Entry, out: tarfile.TarFile) -> None:
    if not entry.member.isreg():
        out.addfile(entry.member)
        return
    content = archive.extractfile(entry.source)
    if content is None:
        raise tarfile.ReadError(f"{entry.source.name} has no content")
    if entry.member.name.endswith(".pyc"):
        out.addfile(entry.member, io.BytesIO(_timeless(content.read())))
    else:
        out.addfile(entry.member, content)


def _timeless(code: bytes) -> bytes:
    """Byte code with the time that its source has in a layer, so that it still fits it."""
    if len(code) < _HEADER.size:
        return code
    magic, flags, _, size = _HEADER.unpack_from(code)
    return _HEADER.pack(magic, flags, EPOCH, size) + code[_HEADER.size :] if not flags else code


def _clean(source: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """The entry without names of users, times, and what a build's file system had to say."""
    member = tarfile.TarInfo(name)
    member.type = tarfile.REGTYPE if source.isreg() else source.type
    member.mode, member.uid, member.gid = source.mode & 0o7777, source.uid, source.gid
    member.mtime, member.size = EPOCH, source.size if source.isreg() else 0
    member.linkname = source.linkname if source.issym() else ""
    member.devmajor, member.devminor = source.devmajor, source.devminor
    # Capabilities of a file are part of what it is.
    kept = {key: value for key, value in source.pax_headers.items() if "capability" in key}
    member.pax_headers = kept
    return member


def _name(name: str) -> str:
    return name.removeprefix("./").strip("/") or "."


def _dropped(name: str) -> bool:
    return _GONE.fullmatch(name) is not None
