"""The checksum of a set of weights, the same in the policy and in the engine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch


def state_checksum(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """Digest names, dtypes, shapes and raw bytes of full (unsharded) tensors.

    A negative zero counts as zero: an engine that has packed a weight for its kernel can only be
    read by a product, which does not tell the two apart.

    Args:
        tensors: (checkpoint name, tensor) pairs in any order; names must be distinct.

    Returns:
        64 hexadecimal digits of SHA-256; the order of the pairs does not matter.
    """
    import torch

    digest = hashlib.sha256()
    seen: set[str] = set()
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        if name in seen:
            msg = f"tensor {name!r} appears twice"
            raise ValueError(msg)
        seen.add(name)
        flat = (tensor.detach().to("cpu") + 0).contiguous().reshape(-1)
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
