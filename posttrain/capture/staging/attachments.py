"""Attachments of a call (media tensors, say) as bytes: arrays and bytes, nothing that runs code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load, save

if TYPE_CHECKING:
    from collections.abc import Mapping

_ARRAY, _BYTES = "array/", "bytes/"


def pack(attachments: Mapping[str, Any] | None) -> bytes:
    """Put attachments into one value; None gives no bytes.

    Raises:
        TypeError: a value that is neither an array nor bytes; it is named.
    """
    if attachments is None:
        return b""
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in attachments.items():
        if isinstance(value, bytes):
            tensors[_BYTES + name] = np.frombuffer(value, np.uint8)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            tensors[_ARRAY + name] = np.ascontiguousarray(value).reshape(value.shape)
        else:
            kind = getattr(value, "dtype", type(value).__name__)
            raise TypeError(f"attachment {name} is {kind}: give a numeric numpy array or bytes")
    return bytes(save(tensors))


def unpack(packed: bytes) -> dict[str, Any]:
    """Give back what :func:`pack` was given, by name."""
    if not packed:
        return {}
    found: dict[str, Any] = {}
    for name, value in load(packed).items():
        if name.startswith(_BYTES):
            found[name.removeprefix(_BYTES)] = value.tobytes()
        else:
            found[name.removeprefix(_ARRAY)] = value
    return found
