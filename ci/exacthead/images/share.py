"""Sharing the cache: environments for another machine, in a folder that a CI system can keep."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.images.cache import Cache
from exacthead.images.layer import digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.images.layer import Layer


def save(cache: Cache, folder: Path) -> list[str]:
    """Copy what is ready in the cache to ``folder``: records, and the layers that they name.

    What lies there already and has the right size is not copied again.

    Returns:
        The digests of the layers there.

    Raises:
        HarnessError: it cannot be written to.
    """
    target = Cache(folder)
    target.create()
    try:
        found: set[str] = set()
        for kind, key in cache.records():
            ready = cache.look(kind, key)
            if ready is None:
                continue
            for layer in ready[0]:
                place = target.layer_path(layer.diff_id)
                if not (place.is_file() and place.stat().st_size == layer.size):
                    partial = place.with_name(f"{place.name}.partial")
                    shutil.copyfile(cache.layer_path(layer.diff_id), partial)
                    partial.replace(place)
                found.add(layer.diff_id)
            target.write(kind, key, *ready)
    except OSError as error:
        raise HarnessError(f"save the cache to {folder}", str(error), "make room there") from error
    return sorted(found)


def load(cache: Cache, folder: Path) -> list[str]:
    """Take in what :func:`save` wrote; the digest of every layer is recomputed.

    Returns:
        ``kind key`` of everything that is ready now and was in the folder.

    Raises:
        HarnessError: a layer is not what its name says; nothing of it is taken in.
    """
    source = Cache(folder)
    if not (folder / "records").is_dir():
        raise HarnessError(
            f"load the cache from {folder}", "no records there", "name a folder of --save-cache"
        )
    taken = []
    try:
        for kind, key in source.records():
            ready = source.look(kind, key)
            if ready is None:
                continue
            for layer in ready[0]:
                _take(source, cache, layer)
            cache.write(kind, key, *ready)
            taken.append(f"{kind} {key}")
    except (OSError, json.JSONDecodeError) as error:
        todo = "make room, or save it again"
        raise HarnessError(f"load the cache from {folder}", str(error), todo) from error
    return taken


def _take(source: Cache, cache: Cache, layer: Layer) -> None:
    place = cache.layer_path(layer.diff_id)
    if place.is_file() and place.stat().st_size == layer.size:
        return
    partial = cache.work / f"{place.name}.{os.getpid()}.partial"
    shutil.copyfile(source.layer_path(layer.diff_id), partial)
    if (found := digest_of(partial)) != layer.diff_id:
        partial.unlink()
        raise HarnessError(
            f"layer {layer.diff_id} of a saved cache",
            f"its content has {found}",
            "save the cache again: that file was changed or broke off",
        )
    partial.replace(place)
