"""Port ranges: each item gets its own, and two items of this machine never share one.

The claim on a range is its first port, bound for as long as the item lives: the kernel keeps two
claims apart in exactly the namespace in which ports exist, across users and harnesses, and ends
the claim when its last holder is gone. The ranges lie above Ray's worker ports (up to 19999) and
below the ports that Linux hands out by itself (from 32768).
"""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = 20_000
LAST = 32_699
SIZE = 100


@dataclass(frozen=True)
class Ports:
    """A claimed range, both ends included; ``claim`` is the socket that holds it."""

    low: int
    high: int
    claim: socket.socket

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


@contextlib.contextmanager
def claim_ports(first: int = FIRST, last: int = LAST, size: int = SIZE) -> Iterator[Ports]:
    """Claim the lowest range whose ports are all free; it is given back at the end.

    Args:
        first: where ranges start.
        last: the highest port that a range may hold.
        size: ports of one range, the claim's own included; the item gets ``size - 1``.

    Raises:
        HarnessError: when every range is claimed or has a port in use.
    """
    busy: list[int] = []
    for low in range(first, last - size + 2, size):
        claim = _bind(low)
        if claim is None:
            busy.append(low)
            continue
        with claim:
            in_use = _first_in_use(low + 1, low + size - 1)
            if in_use is not None:
                busy.append(in_use)
                continue
            yield Ports(low + 1, low + size - 1, claim)
            return
    raise HarnessError(
        f"{size} free ports in a row between {first} and {last}",
        f"every range has a port in use: {', '.join(map(str, busy))}",
        "wait for other runs to end, or end the programs that listen there (ss -ltnp)",
    )


def _first_in_use(low: int, high: int) -> int | None:
    for port in range(low, high + 1):
        probe = _bind(port)
        if probe is None:
            return port
        probe.close()
    return None


def _bind(port: int) -> socket.socket | None:
    """Bind the port on every address, IPv6 included where there is one; None when it is in use.

    Without SO_REUSEADDR a port that still drains an earlier item's connections counts as in use.
    """
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    if family is socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        bound.bind(("", port))
    except OSError as error:
        bound.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return bound
