"""Free TCP ports of this machine, within the range that the harness gave this run, if any."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import ExitStack
from pathlib import Path

from posttrain.errors import WorkerError

VARIABLE = "EXACTHEAD_PORTS"
HOST = "127.0.0.1"
# What Linux gives to sockets that ask for no particular port, as `low<TAB>high`.
ASSIGNED = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Below are the well-known services.
LOWEST = 10240


def free_ports(count: int) -> tuple[int, ...]:
    """Pick ``count`` different ports that nothing listens on.

    They are only looked at, not held: whoever binds one must still say when it is taken. That may
    be half a minute later, so they are none that the system assigns to other programs meanwhile.

    Raises:
        WorkerError: the range in ``EXACTHEAD_PORTS`` (``low-high``), or all below those that the
            system assigns, has too few free ports.
    """
    if given := os.environ.get(VARIABLE):
        low, high = (int(part) for part in given.split("-"))
        candidates = list(range(low, high + 1))
        where = f"{VARIABLE}={given}"
    else:
        candidates = list(range(LOWEST, int(ASSIGNED.read_text(encoding="ascii").split()[0])))
        # Another run on this machine looks at the same time.
        secrets.SystemRandom().shuffle(candidates)
        where = f"{LOWEST} and up to what {ASSIGNED} begins with"
    found: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(found) == count:
                break
            try:
                held.enter_context(_bound(port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise WorkerError(
            f"{count} free ports in {where}",
            f"{len(found)} free ones",
            f"end what uses them, or give the run a larger range in {VARIABLE}",
        )
    return tuple(found)


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind((HOST, port))
    except OSError:
        bound.close()
        raise
    return bound
