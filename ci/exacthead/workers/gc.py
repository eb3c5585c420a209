"""Collect garbage: the workers used least recently, until the store is small enough."""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import TYPE_CHECKING

from exacthead.workers import claim, record
from exacthead.workers.layout import remove_tree
from exacthead.workers.manifest import files

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.workers.layout import Layout


def collect(layout: Layout, max_bytes: int) -> list[str]:
    """Remove what killed builders left, then workers by last use until ``max_bytes`` are kept.

    A file that several workers share through hard links counts once; what uv's cache holds besides
    is uv's to prune. A worker that is in use or claimed is never removed, so that more may be left.

    Returns:
        The keys that were removed, in order; only their first digits for half-built ones.
    """
    removed = [stem for stem in layout.stems() if _remove_leftovers(layout, stem)]
    sizes = {stem: _inodes(layout.worker(stem)) for stem in layout.stems()}
    holders = Counter(inode for inodes in sizes.values() for inode in inodes)
    total = sum(
        {inode: size for inodes in sizes.values() for inode, size in inodes.items()}.values()
    )
    for stem in sorted(sizes, key=lambda stem: last_used(layout, stem)):
        if total <= max_bytes:
            break
        key = _remove_unused(layout, stem)
        if key is None:
            continue
        removed.append(key)
        for inode, size in sizes[stem].items():
            holders[inode] -= 1
            total -= 0 if holders[inode] else size
    return removed


def last_used(layout: Layout, key: str) -> float:
    """When ``key`` was asked for last, in seconds since the epoch; 0 for never."""
    stamp = layout.stamp(key)
    return stamp.stat().st_mtime if stamp.exists() else 0.0


def remove(layout: Layout, key: str) -> None:
    """Take a worker away, its readiness first. The caller holds its claim."""
    layout.record(key).unlink(missing_ok=True)
    remove_tree(layout.worker(key))
    layout.manifest(key).unlink(missing_ok=True)
    for path in (layout.record(key), layout.manifest(key)):
        for unfinished in path.parent.glob(f".{path.name}.*"):
            unfinished.unlink(missing_ok=True)


def _remove_leftovers(layout: Layout, stem: str) -> bool:
    if record.read(layout, stem) is not None:
        return False
    with claim.try_hold(layout.lock(stem), f"remove what is left of worker {stem}") as held:
        if held is None or record.read(layout, stem) is not None:
            return False
        if claim.marks(layout.uses(stem)):
            # Invalidated while in use; its users still read from the folder.
            return False
        remove(layout, stem)
        return True


def _remove_unused(layout: Layout, stem: str) -> str | None:
    with claim.try_hold(layout.lock(stem), f"remove worker {stem}") as held:
        ready = record.read(layout, stem)
        if held is None or ready is None or claim.marks(layout.uses(stem)):
            return None
        remove(layout, stem)
        layout.stamp(stem).unlink(missing_ok=True)
        layout.log(stem).unlink(missing_ok=True)
        remove_tree(layout.uses(stem))
        return ready.key


def _inodes(root: Path) -> dict[tuple[int, int], int]:
    """Identity -> bytes of each regular file below ``root``."""
    found = {}
    for path in files(root):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue  # another process removes the worker
        if stat.S_ISREG(status.st_mode):
            found[status.st_dev, status.st_ino] = status.st_size
    return found
