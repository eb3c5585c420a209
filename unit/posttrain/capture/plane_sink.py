"""A staging sink over TransferQueue for the conformance suite, in any process of its cluster."""

from __future__ import annotations

import json
from pathlib import Path

import ray

from posttrain.capture.staging.plane import PlaneStore
from posttrain.dataplane import connect

PLANE = "plane.json"


def plane(place: str) -> tuple[PlaneStore, PlaneStore]:
    known = json.loads((Path(place) / PLANE).read_text())
    if not ray.is_initialized():
        ray.init(address=known["address"], logging_level="ERROR", log_to_driver=False)
    store = PlaneStore(connect(known["handle"]), owned=True)
    return store, store
