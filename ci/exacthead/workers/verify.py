"""Verify and repair: find every changed byte of a worker, and who else has it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.workers import claim, manifest, record
from exacthead.workers.distributions import owners
from exacthead.workers.manifest import Damage
from exacthead.workers.uv import run_uv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exacthead.workers.layout import Layout

_CONTENT = {"changed", "mode"}


@dataclass(frozen=True)
class Repair:
    """Damages found, distributions purged from uv's cache, workers that are ready no longer."""

    damages: tuple[Damage, ...]
    purged: tuple[str, ...]
    invalidated: tuple[str, ...]


def verify(layout: Layout, key: str) -> list[Damage]:
    """Hash every file of the ready worker ``key`` and compare it with the manifest.

    Raises:
        HarnessError: there is no ready worker of that key.
    """
    ready = record.read(layout, key)
    if ready is None:
        raise HarnessError(f"verify worker {key}", "no ready worker of that key", "ensure it first")
    path = layout.manifest(key)
    data = path.read_bytes() if path.exists() else b""
    digest = hashlib.sha256(data).hexdigest()
    if digest != ready.manifest_sha256:
        return [Damage(path.name, "manifest", ready.manifest_sha256, digest)]
    root = layout.worker(key)
    return manifest.compare(manifest.decode(data), manifest.scan(root))


def repair(layout: Layout, key: str, environment: Mapping[str, str], deadline: float) -> Repair:
    """Make sure that no damaged file of ``key`` is used again, here or in another worker.

    The damaged distributions leave uv's cache, and every worker that has a damaged file, by the
    same inode, loses its readiness; whoever asks for one of them next gets a new build. The
    caller holds the store's mending claim.

    Args:
        layout: of the store.
        key: the worker.
        environment: for uv, whole.
        deadline: for the claims, a point of :func:`time.monotonic` in seconds.
    """
    damages = verify(layout, key)
    if not damages:
        return Repair((), (), ())
    root = layout.worker(key)
    spoilt = [root / damage.path for damage in damages if damage.kind in _CONTENT]
    inodes = {_inode(path) for path in spoilt} - {None}
    affected = [key, *_sharers(layout, key, inodes)]
    # Readiness goes first: from here on nobody starts with a damaged file.
    for stem in affected:
        invalidate(layout, stem, deadline)
    purged = _owners_of(root, damages)
    purge(purged, environment)
    return Repair(tuple(damages), tuple(purged), tuple(affected))


def invalidate(layout: Layout, key: str, deadline: float) -> None:
    """Take the readiness of ``key`` away; its folder stays for those who are in it."""
    purpose = f"invalidate worker {key}"
    with claim.hold(layout.lock(key), purpose, deadline=deadline):
        layout.record(key).unlink(missing_ok=True)


def purge(names: Iterable[str], environment: Mapping[str, str]) -> None:
    """Remove distributions from uv's cache."""
    listed = list(names)
    if listed:
        run_uv(
            ["cache", "clean", *listed],
            environment,
            asked=f"remove {', '.join(listed)} from uv's cache",
            todo="look at uv's cache folder (`uv cache dir`)",
        )


def _owners_of(root: Path, damages: Iterable[Damage]) -> list[str]:
    owned = owners(root)
    return sorted({name for damage in damages for name in owned.get(damage.path, ())})


def _sharers(layout: Layout, key: str, inodes: set[tuple[int, int] | None]) -> Iterator[str]:
    for stem in layout.stems():
        other = record.read(layout, stem)
        if other is None or other.key.startswith(key):
            continue
        if any(_inode(Path(path)) in inodes for path in manifest.files(layout.worker(stem))):
            yield other.key


def _inode(path: Path) -> tuple[int, int] | None:
    """Identity of the file that ``path`` is or links to; a link to nothing is itself.

    None for what has gone: another process may remove the worker meanwhile.
    """
    for look in (path.stat, path.lstat):
        try:
            status = look()
        except FileNotFoundError:
            continue
        return status.st_dev, status.st_ino
    return None
