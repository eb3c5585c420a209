"""Garbage collection: images of heads go by age, and what the last runs used stays."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.images.oci import CONTENT, ENVIRONMENT, REVISION

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine, ImageFacts

# Our names of images; one that somebody has given another name is theirs.
_OURS = "exacthead/"
# How many of the last runs keep their images.
LAST_RUNS = 10
# Seconds that a build may take.
_BUILD_S = 3600.0
# Seconds that a run may take, whose copy of the harness lies among what is being made.
_RUN_S = 24 * 3600.0


@dataclass(frozen=True)
class Swept:
    """What went: images by id, layers by digest, and the bytes that the layers had."""

    images: tuple[str, ...]
    layers: tuple[str, ...]
    bytes: int


def used_lately(runs: Path) -> set[str]:
    """The ids of the images that the last runs were in."""
    found: set[str] = set()
    folders = sorted(runs.glob("*/provenance.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in folders[-LAST_RUNS:]:
        try:
            found |= set(json.loads(path.read_bytes()).get("images", {}).values())
        except ValueError:
            continue  # a run that was killed while it wrote it
    return found


def collect(engine: Engine, cache: Cache, runs: Path, keep_bytes: int) -> Swept:
    """Remove images of heads, then environments and layers, least recently made first.

    Args:
        engine: the engine; an image that a container uses stays, and one with a name of others'.
        cache: the cache of layers.
        runs: the folder of all runs; what the last of them used stays, with its environment.
        keep_bytes: how much the layers in the cache may take beyond that.
    """
    lately = used_lately(runs)
    # An engine may serve other checkouts: what is of an environment of theirs is not ours to judge.
    ours = {key for kind, key in cache.records() if kind == "environment"}
    images = [each for each in engine.our_images() if each.labels.get(ENVIRONMENT) in ours]
    kept = [image for image in images if image.id in lately]
    needed = {layer for image in kept for layer in image.layers}
    gone = []
    for image in sorted(images, key=lambda each: each.created):
        of_head = REVISION in image.labels or CONTENT in image.labels
        if image.id in lately or not of_head or not _is_ours(image):
            continue
        names = [*image.tags] or [image.id]
        if all(engine.remove_image(name) for name in names):
            gone.append(image.id)
    _sweep_work(cache)
    layers, freed = _sweep_layers(cache, needed, keep_bytes)
    for image in images:
        of_head = REVISION in image.labels or CONTENT in image.labels
        if not of_head and set(image.layers) & set(layers) and _is_ours(image):
            gone += [image.id for name in image.tags if engine.remove_image(name)][:1]
    return Swept(tuple(gone), layers, freed)


def _is_ours(image: ImageFacts) -> bool:
    return all(name.startswith(_OURS) for name in image.tags)


def _sweep_work(cache: Cache) -> None:
    """Remove what killed builds have left half made."""
    old = time.time() - _RUN_S
    for path in cache.work.iterdir():
        if path.lstat().st_mtime >= old:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _sweep_layers(cache: Cache, needed: set[str], keep_bytes: int) -> tuple[tuple[str, ...], int]:
    """Forget records, oldest first, until what is left fits; then remove layers of no record."""
    records = cache.records()
    by_age = sorted(records, key=lambda each: cache.age(*each))
    sizes = {path.stem: path.stat().st_size for path in (cache.root / "layers").glob("*.tar")}

    def held() -> set[str]:
        return {digest for digests in records.values() for digest in digests}

    def size_of(digests: set[str]) -> int:
        return sum(sizes.get(each.removeprefix("sha256:"), 0) for each in digests)

    for kind, key in by_age:
        if size_of(held()) <= keep_bytes:
            break
        if not records[kind, key] & needed:
            cache.forget(kind, key)
            del records[kind, key]
    loose = {f"sha256:{stem}" for stem in sizes} - held() - needed
    # A layer comes before its record: a young one may be part of what is being built.
    young = time.time() - _BUILD_S
    loose = {each for each in loose if cache.layer_path(each).stat().st_mtime < young}
    for digest in loose:
        cache.layer_path(digest).unlink(missing_ok=True)
    return tuple(sorted(loose)), size_of(loose)
