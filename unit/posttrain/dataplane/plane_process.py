"""A process that joins a plane and does one thing; its answer is one line of JSON.

Usage: plane_process.py CLUSTER HANDLE VERB PARTITION [IDS ...]
"""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np
import ray

from posttrain.dataplane import DataPlane, PlaneError, connect

FIELDS = ["tokens", "logprobs", "blob"]


def rows(ids: list[str]) -> dict[str, dict[str, np.ndarray | bytes]]:
    """Rows whose content follows from their ids, in any process."""
    made: dict[str, dict[str, np.ndarray | bytes]] = {}
    for key in ids:
        generator = np.random.default_rng(list(key.encode()))
        length = int(generator.integers(0, 2000))
        made[key] = {
            "tokens": generator.integers(-(1 << 62), 1 << 62, length),
            "logprobs": generator.standard_normal(length, np.float32),
            "blob": generator.bytes(length),
        }
    return made


def same(plane: DataPlane, partition: str, ids: list[str]) -> bool:
    """Whether the plane's rows are those, to the bit."""
    wanted = rows(ids).values()
    read = plane.get(partition, ids, FIELDS)
    return all(
        np.asarray(got[field]).tobytes() == np.asarray(row[field]).tobytes()
        for got, row in zip(read, wanted, strict=True)
        for field in FIELDS
    )


def claim_all(plane: DataPlane, partition: str) -> list[str]:
    """Claim by threes until nothing is left."""
    every: list[str] = []
    while claimed := plane.claim(partition, "trainer", 3, ["tokens"]):
        every += claimed
    return every


def main() -> None:
    """Do what the arguments say."""
    cluster, handle, verb, partition, *ids = sys.argv[1:]
    if cluster != "none":
        ray.init(cluster, logging_level="ERROR", log_to_driver=False)
    try:
        plane = connect(json.loads(handle))
        answer: object = None
        if verb == "put":
            plane.put(partition, rows(ids))
        elif verb == "put_and_die":
            plane.put(partition, rows(ids))
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "same":
            answer = same(plane, partition, ids)
        elif verb == "claim":
            answer = claim_all(plane, partition)
        elif verb == "clear":
            plane.clear(partition, ids)
        plane.close()
    except PlaneError as error:
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
