"""The plan of an image: all that would be in it, told without an engine and without building."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exacthead.bootstrap import uv_pin
from exacthead.images.base import key_of
from exacthead.images.buildkit import check_dockerfile
from exacthead.workers.lock import lock_path, read_lock, worker_inputs

if TYPE_CHECKING:
    from exacthead.config import Harness
    from exacthead.images.cache import Cache


def describe(harness: Harness, name: str, cache: Cache, base: str = "") -> dict[str, Any]:
    """What decides the image ``name``: base, packages, Dockerfile, workers and their locks.

    Raises:
        HarnessError: something that it names is not there, or a lock is stale.
    """
    image = harness.image(name)
    declared = harness.base(base or image.base)
    check_dockerfile(harness.root / image.dockerfile)
    workers = {}
    for worker in image.workers:
        inputs = worker_inputs(harness, worker, image.flavour)
        text = read_lock(lock_path(harness.root, worker, image.flavour), inputs)
        pins = [line.split()[0] for line in text.splitlines() if "==" in line and line[0] != "#"]
        workers[worker] = {"python": harness.worker(worker).python, "pins": pins}
    return {
        "image": name,
        "flavour": image.flavour,
        "base": {
            "name": base or image.base,
            "key": key_of(declared),
            "from": declared.image or f"Debian {declared.suite}, made here",
            "ready": cache.read("base", key_of(declared)) is not None,
        },
        "packages": [*declared.packages, *image.packages],
        "dockerfile": image.dockerfile,
        "uv": uv_pin(harness.root).version,
        "workers": workers,
    }
