"""Free TCP ports of this machine, within the range that the harness gave this run, if any."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

from posttrain.errors import WorkerError

VARIABLE = "EXACTHEAD_PORTS"
HOST = "127.0.0.1"


def free_ports(count: int) -> tuple[int, ...]:
    """Pick ``count`` different ports that nothing listens on.

    They are only looked at, not held: whoever binds one must still say when it is taken.

    Raises:
        WorkerError: the range in ``EXACTHEAD_PORTS`` (``low-high``) has too few free ports.
    """
    given = os.environ.get(VARIABLE)
    with ExitStack() as held:
        if not given:
            return tuple(_bind(held, 0) for _ in range(count))
        low, high = (int(part) for part in given.split("-"))
        found: list[int] = []
        for port in range(low, high + 1):
            if len(found) == count:
                break
            try:
                found.append(_bind(held, port))
            except OSError:
                continue
    if len(found) < count:
        raise WorkerError(
            f"{count} free ports in {VARIABLE}={given}",
            f"{len(found)} free ones",
            "end what uses them, or give the run a larger range",
        )
    return tuple(found)


def _bind(held: ExitStack, port: int) -> int:
    bound = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    bound.bind((HOST, port))
    number: int = bound.getsockname()[1]
    return number
