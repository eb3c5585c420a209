"""Weights as one stream of bytes, which a transport carries in bounded buffers.

A buffer holds the end of one tensor, whole small ones, and the beginning of the next: neither the
number nor the size of tensors decides how much is in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from posttrain.errors import RefitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from posttrain.refit.offer import TensorInfo


class Packer:
    """Fills buffers with the bytes of tensors, one after the other.

    Args:
        tensors: contiguous or not, in the manifest's order.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors = iter(tensors)
        self._rest = torch.empty(0, dtype=torch.uint8)

    def fill(self, buffer: torch.Tensor) -> None:
        """Copy the next ``len(buffer)`` bytes into ``buffer`` (uint8, one dimension).

        Raises:
            ValueError: fewer are left.
        """
        done = 0
        while done < len(buffer):
            if not len(self._rest):
                self._rest = self._next()
            count = min(len(self._rest), len(buffer) - done)
            buffer[done : done + count].copy_(self._rest[:count])
            self._rest = self._rest[count:]
            done += count

    def _next(self) -> torch.Tensor:
        tensor = next(self._tensors, None)
        if tensor is None:
            msg = "the tensors hold fewer bytes than their manifest says"
            raise ValueError(msg)
        return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


class Arrival:
    """Tensors put together from the buffers that arrive; each has memory of its own.

    A loader may keep a tensor until the rest of its layer is there, so that none may be a view of
    a buffer, which is filled again.

    Args:
        manifest: what arrives, in order.
        buffers: uint8 tensors of one dimension; each is read before the next is asked for.

    Attributes:
        current: the tensor that is being received, or was received last; for errors.
    """

    def __init__(self, manifest: Sequence[TensorInfo], buffers: Iterator[torch.Tensor]) -> None:
        self.current = manifest[0]
        self._manifest = manifest
        self._buffers = buffers
        self._rest = torch.empty(0, dtype=torch.uint8)

    def tensors(self) -> Iterator[tuple[TensorInfo, torch.Tensor]]:
        """Each tensor as soon as it is whole, once, in order.

        Raises:
            RefitError: buffers end early, or hold more than the manifest says.
        """
        for info in self._manifest:
            self.current = info
            whole = torch.empty(info.shape, dtype=getattr(torch, info.dtype))
            self._fill(whole.reshape(-1).view(torch.uint8), info)
            yield info, whole
        if len(self._rest) or next(self._buffers, None) is not None:
            raise RefitError(
                "the weights of the manifest", "bytes beyond its last tensor", "look at the sender"
            )

    def _fill(self, target: torch.Tensor, info: TensorInfo) -> None:
        done = 0
        while done < len(target):
            if not len(self._rest):
                arrived = next(self._buffers, None)
                if arrived is None:
                    raise RefitError(
                        f"{info.name}, {len(target)} bytes",
                        f"the stream ended after {done}",
                        "look at the sender",
                    )
                self._rest = arrived
            count = min(len(self._rest), len(target) - done)
            target[done : done + count].copy_(self._rest[:count])
            self._rest = self._rest[count:]
            done += count
