"""What a TransferQueue plane needs around it: numbers in range, a cluster, its own process."""

from __future__ import annotations

import os

import ray

from posttrain.dataplane.errors import HandleError

UNITS = 2
DEADLINE_S = 20.0
START_S = 180.0
SHORTEST_S, LONGEST_S = 3.0, 120.0  # TransferQueue itself repeats a request after 200 s


def in_range(asked: str, units: int, deadline_s: float) -> None:
    """Refuse a plane that could not keep its bounds.

    Raises:
        HandleError: too few units, or too short or long a deadline in seconds.
    """
    if units < UNITS or not SHORTEST_S <= deadline_s <= LONGEST_S:
        raise HandleError(
            asked,
            f"{units} units and a deadline of {deadline_s} s",
            f"give {UNITS} units or more and {SHORTEST_S:g} to {LONGEST_S:g} s",
        )


def cluster_address(asked: str) -> str:
    """Return the address of this process's Ray cluster.

    Raises:
        HandleError: it is in none.
    """
    if not ray.is_initialized():
        raise HandleError(
            asked, "Ray is not initialised in this process", "call ray.init for the run's cluster"
        )
    address: str = ray.get_runtime_context().gcs_address
    return address


def in_this_process(asked: str, pid: int) -> None:
    """Refuse what a fork has inherited: its sockets and threads stayed with the other process.

    Raises:
        HandleError: this is not the process ``pid``.
    """
    if pid != os.getpid():
        raise HandleError(
            asked,
            f"process {os.getpid()} was forked from process {pid}, which made this plane's"
            " connections",
            "start processes with `spawn`, and connect in each with the plane's handle",
        )
