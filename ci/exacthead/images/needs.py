"""Needs: the programs that suites require, looked for in the images that they run in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.images.box import BoxSpec, Limits, run_plain
from exacthead.images.owner import this
from exacthead.suite_items import skipped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.images.where import Placed
    from exacthead.plan import Item

_PROGRAM = "program:"
_ASK = 'for each; do command -v "$each" >/dev/null || printf "%s\\n" "$each"; done'
_SMALL = Limits(cpus=1, memory_gb=0.5, pids=64)


def settle(
    harness: Harness, items: Iterable[Item], images: Placed, *, strict: bool
) -> tuple[tuple[Item, ...], Placed]:
    """Skip, by name, the items of suites whose image lacks a program that they require.

    Args:
        harness: the declarations.
        items: of a plan; those that have an image are asked about.
        images: where they run.
        strict: whether what is skipped so is required all the same.

    Returns:
        The items, and the places of those that are left to run.
    """
    found: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    told = []
    for item in items:
        place, programs = images.by_item.get(item.id), _programs(harness, item)
        if place and programs:
            asked = (place.image, programs)
            if asked not in found:
                found[asked] = absent(place, programs)
            if missing := found[asked]:
                words = "; ".join(f"no {name} on PATH" for name in missing)
                reason = f"needs what is not in image {place.name}: {words}"
                told.append(skipped(item, reason, strict=strict))
                continue
        told.append(item)
    left = {item.id for item in told if item.settled is None}
    return tuple(told), replace(
        images,
        by_item={name: place for name, place in images.by_item.items() if name in left},
        images={name: image for name, image in images.images.items() if name in left},
    )


def absent(place: InImage, programs: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the programs that a container of the image has not on its PATH."""
    spec = BoxSpec(
        image=place.image,
        command=("sh", "-c", _ASK, "sh", *programs),
        owner=this(),
        limits=_SMALL,
        environment=dict(place.inherited),
    )
    said, _ = run_plain(place.engine, spec)
    missing = set(said.decode().splitlines())
    return tuple(name for name in programs if name in missing)


def _programs(harness: Harness, item: Item) -> tuple[str, ...]:
    if item.shard is None:
        return ()
    required = harness.suite(item.shard.suite).requires
    return tuple(name.removeprefix(_PROGRAM) for name in required if name.startswith(_PROGRAM))
