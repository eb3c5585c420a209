"""Bases: a public image pinned by digest, or a Debian that mmdebstrap makes the same everywhere."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.images.layer import EPOCH, Layer, digest_of
from exacthead.images.mirror import own_mirror
from exacthead.images.saved import saved_layers

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine
    from exacthead.images.tables import Base

_KIND = "base"
# Raise it when the same declaration makes another base.
_VERSION = 2
# What nobody reads in a container.
_UNREAD = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*")
# mmdebstrap leaves this machine's name and name servers there, and where it was made from, which
# may hold credentials. An engine lays its own files over the first two.
_OF_THIS_MACHINE = ("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list")
_STATUS = "var/lib/dpkg/status"
_DEADLINE_S = 1800


@dataclass(frozen=True)
class MadeBase:
    """A base that is ready: declaration, layers, and what its distribution says is in it."""

    declared: Base
    key: str
    layers: tuple[Layer, ...]
    packages: tuple[str, ...]


def key_of(base: Base) -> str:
    """The digest of a base's declaration."""
    text = json.dumps([_VERSION, EPOCH, base.model_dump()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ensure_base(
    base: Base, cache: Cache, engine: Engine | None, say: Callable[[str], None]
) -> MadeBase:
    """The base, made or pulled unless it is in the cache.

    Args:
        base: its declaration.
        cache: where it is kept.
        engine: for public bases.
        say: is told what takes long.

    Raises:
        HarnessError: it cannot be had, or is not what its digest says.
    """
    key = key_of(base)
    found = cache.read(_KIND, key)
    if found is None:
        with cache.building(_KIND, key):
            found = cache.read(_KIND, key)
            if found is None:
                say(f"base {base.image or base.suite}: none in the cache, so it is made now")
                layers = _pull(base, cache, engine) if base.image else [_bootstrap(base, cache)]
                packages = _packages(layers)
                cache.write(_KIND, key, layers, {"packages": packages})
                found = layers, {"packages": packages}
    return MadeBase(base, key, tuple(found[0]), tuple(found[1]["packages"]))


def mirror_of(base: Base) -> str:
    """Where a base that is made here, and whatever is added to it, comes from."""
    return base.mirror or own_mirror()


def _bootstrap(base: Base, cache: Cache) -> Layer:
    """A minimal Debian as one layer."""
    program = shutil.which("mmdebstrap")
    asked = f"a base of Debian {base.suite}"
    if program is None:
        raise HarnessError(asked, "no mmdebstrap on PATH", "apt-get install mmdebstrap")
    mirror = mirror_of(base)
    with tempfile.TemporaryDirectory(dir=cache.work) as folder:
        target = Path(folder) / "rootfs.tar"
        command = [program, "--variant=minbase", "--format=tar", "--quiet"]
        # The archive's own date is long past where a mirror is a copy of another day.
        command += ['--aptopt=Acquire::Check-Valid-Until "false"']
        command += [f"--dpkgopt=path-exclude={path}" for path in _UNREAD]
        command += [f'--customize-hook=rm -f "$1/{path}"' for path in _OF_THIS_MACHINE]
        command += [f"--include={','.join(base.packages)}"] if base.packages else []
        command += [str(base.suite), str(target), mirror]
        log = cache.log(_KIND, key_of(base))
        environment = {**_plain_environment(), "SOURCE_DATE_EPOCH": str(EPOCH)}
        with log.open("wb") as file:
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, check=False, timeout=_DEADLINE_S,
            )  # fmt: skip
        if done.returncode != 0 or not target.is_file():
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-800:]
            raise HarnessError(
                asked,
                f"mmdebstrap left with exit code {done.returncode}:\n    {said}",
                f"read {log}; is the mirror at {urlsplit(mirror).hostname} reachable?",
            )
        found = digest_of(target)
        if base.digest and found != base.digest:
            raise HarnessError(
                f"{asked} with digest {base.digest}",
                f"it has {found}: the mirror has other packages by now",
                "review what changed, then write the new digest into harness.toml",
            )
        size = target.stat().st_size
        return cache.keep(Layer(found, size, target, f"mmdebstrap {base.suite}"))


def _plain_environment() -> dict[str, str]:
    """This machine's ways out, and neither its language nor its time zone."""
    kept = clean_environment(os.environ).items()
    of_people = ("LANG", "LC_", "TZ")
    plain = {name: value for name, value in kept if not name.startswith(of_people)}
    return {**plain, "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _pull(base: Base, cache: Cache, engine: Engine | None) -> list[Layer]:
    """The layers of a public image, once the engine has it and it is the one that is pinned."""
    reference = str(base.image)
    todo = "reach its registry, correct the digest, or choose a base that is made here: --base NAME"
    if engine is None:
        raise HarnessError(f"the base {reference}", "no engine to pull it with", todo)
    facts = engine.image(reference)
    if facts is None:
        engine.pull(reference, todo)
        facts = engine.image(reference)
    if facts is None:
        raise HarnessError(f"the base {reference}", "the engine has not got it after a pull", todo)
    pinned = reference.rpartition("@")[2]
    if not any(each.endswith(f"@{pinned}") for each in facts.digests):
        known = ", ".join(facts.digests) or "none"
        raise HarnessError(f"the base {reference}", f"the engine has it as {known}", todo)
    with tempfile.TemporaryDirectory(dir=cache.work) as folder:
        files = saved_layers(engine.save(facts.id), Path(folder))
        kept = []
        for expected, path in zip(facts.layers, files, strict=True):
            if (found := digest_of(path)) != expected:
                raise HarnessError(
                    f"a layer {expected} of {reference}", f"its content has {found}", todo
                )
            kept.append(cache.keep(Layer(expected, path.stat().st_size, path, reference)))
    return kept


def _packages(layers: list[Layer]) -> list[str]:
    """``name=version`` of each Debian package; empty where dpkg's status is in no layer."""
    for layer in reversed(layers):
        if layer.path is None:
            continue
        with tarfile.open(layer.path, "r:") as archive:
            for member in archive:
                if member.name.removeprefix("./") != _STATUS:
                    continue
                content = archive.extractfile(member)
                text = content.read().decode(errors="replace") if content else ""
                return sorted(_installed(text))
    return []


def _installed(status: str) -> list[str]:
    found = []
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line[:40])
        if "ok installed" in fields.get("Status", ""):
            found.append(f"{fields['Package']}={fields['Version']}")
    return found
