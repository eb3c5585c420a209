"""The policy's side of a refit, in the test's own process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from posttrain.refit.dispatch import Dispatch
from posttrain.refit.offer import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

    from posttrain.refit.offer import Offer

CALL_S = 60
# No two sets of weights have one version.
versions = count(1)


def make_request(**changes: Any) -> Request:
    values = {
        "transport": "shared_memory",
        "version": next(versions),
        "receivers": ("generation-0 rank 0",),
        # Small, so that tensors end and begin within buffers, and buffers are used again.
        "buffer_bytes": 10_000,
        "patience_s": CALL_S,
    }
    return Request(**{**values, **changes})


def offered(state: Mapping[str, torch.Tensor], **changes: Any) -> Offer:
    """An offer whose sender is gone."""
    dispatch = Dispatch()
    offer = dispatch.offer(state, make_request(**changes))
    dispatch.withdraw()
    return offer


@contextmanager
def sending(state: Mapping[str, torch.Tensor], request: Request) -> Iterator[Offer]:
    """Send weights while the block receives them; the sender's errors end the block."""
    dispatch = Dispatch()
    offer = dispatch.offer(state, request)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(dispatch.send)
        yield offer
        sent.result(CALL_S)
