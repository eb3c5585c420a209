"""How the ranks find each other: a store that rank 0 serves, and a wait for the slowest one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist

if TYPE_CHECKING:
    from posttrain.policy.options import PolicyOptions


def make_store(options: PolicyOptions, *, port: int, serve: bool) -> dist.TCPStore:
    """Serve the store at rank 0's `port` (0: a free one), or connect to it."""
    return dist.TCPStore(
        options.host,
        port,
        options.ranks,
        is_master=serve,
        wait_for_workers=False,
        timeout=timedelta(seconds=options.start_timeout_s),
    )


def meet(options: PolicyOptions, rank: int, store: dist.Store) -> None:
    """Wait until every rank has imported and loaded: a collective's patience is shorter."""
    names = [f"loaded/{each}" for each in range(options.ranks)]
    store.set(names[rank], "")
    store.wait(names, timedelta(seconds=options.start_timeout_s))
