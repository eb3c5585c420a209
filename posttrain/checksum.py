"""The checksum of a set of weights, the same in the policy and in the engine.

It is made of one digest a tensor, so that two sides that differ can say where.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

# Elements that are digested at a time: their copy without negative zeros stays in the cache.
_PART = 1 << 18


def state_checksum(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """Digest names, dtypes, shapes and contents of full (unsharded) tensors.

    Args:
        tensors: (checkpoint name, tensor) pairs in any order; names must be distinct.

    Returns:
        :func:`combined` of each tensor's digest.

    Raises:
        ValueError: a name appears twice.
    """
    return combined(
        (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor_digest(tensor))
        for name, tensor in tensors
    )


def combined(entries: Iterable[tuple[str, str, tuple[int, ...], str]]) -> str:
    """The checksum of a set of weights, from what is known of each tensor.

    Args:
        entries: (checkpoint name, dtype without ``torch.``, shape, :func:`tensor_digest`), in any
            order; names must be distinct.

    Returns:
        64 hexadecimal digits: SHA-256 over ``name NUL dtype NUL shape NUL digest LF`` of every
        tensor, sorted by name.

    Raises:
        ValueError: a name appears twice.
    """
    digest = hashlib.sha256()
    seen: set[str] = set()
    for name, dtype, shape, own in sorted(entries):
        if name in seen:
            msg = f"tensor {name!r} appears twice"
            raise ValueError(msg)
        seen.add(name)
        digest.update(f"{name}\0{dtype}\0{shape}\0{own}\n".encode())
    return digest.hexdigest()


def tensor_digest(tensor: torch.Tensor) -> str:
    """Digest a tensor's elements in its own order, whatever its layout in memory or its device.

    A negative zero counts as zero: an engine that has packed a weight for its kernel can only be
    read by a product, which does not tell the two apart.

    Returns:
        64 hexadecimal digits: SHA-256 over the elements' bytes.
    """
    import torch

    digest = hashlib.sha256()
    for part in tensor.detach().to("cpu").contiguous().reshape(-1).split(_PART):
        digest.update((part + 0).view(torch.uint8).numpy().data)
    return digest.hexdigest()
