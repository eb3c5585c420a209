"""What the policy offers in a refit: which tensors, as a manifest, and where their bytes come from.

Plain Python: an offer passes through a driver that has no torch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posttrain.checksum import combined, tensor_digest
from posttrain.errors import RefitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from posttrain.refit.transport import Link

# What a refit does about requests that an engine is at work on: refuse to load anything, or hold
# them, have everything that the former weights computed for them computed again, and go on.
InFlight = Literal["refuse", "continue"]
# Bytes of an element of each dtype that weights are served in.
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class TensorInfo:
    """One entry of a manifest.

    Attributes:
        name: checkpoint name.
        dtype: torch's name without ``torch.``.
        shape: of the full tensor.
        digest: ``posttrain.checksum.tensor_digest`` of what the policy holds.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str

    @property
    def nbytes(self) -> int:
        """Size of the full tensor in bytes.

        Raises:
            RefitError: a dtype that no weights are served in.
        """
        if self.dtype not in ITEM_BYTES:
            raise RefitError(
                f"{self.name} in a refit",
                f"dtype {self.dtype}",
                f"send weights as {', '.join(ITEM_BYTES)}",
            )
        size = ITEM_BYTES[self.dtype]
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class Request:
    """What a refit is asked to be.

    Attributes:
        transport: a name of ``posttrain.refit.transport.TRANSPORTS``.
        version: of the weights; greater than any that an engine has had.
        receivers: every rank of every engine that takes the weights, by name.
        host: address of rank 0's machine, at which receivers reach it.
        buffer_bytes: most bytes that are handed over at once.
        patience_s: how long either side waits for the other to go on, in seconds.
        in_flight: what becomes of requests that an engine is at work on.
    """

    transport: str
    version: int
    receivers: tuple[str, ...]
    host: str = "127.0.0.1"
    buffer_bytes: int = 64 << 20
    patience_s: float = 30.0
    in_flight: InFlight = "refuse"


@dataclass(frozen=True)
class Offer:
    """Weights that are ready to be sent.

    Attributes:
        request: what was asked for.
        manifest: every tensor, in the order in which their bytes are sent.
        link: how a receiver gets the bytes.
    """

    request: Request
    manifest: tuple[TensorInfo, ...]
    link: Link

    @property
    def names(self) -> tuple[str, ...]:
        """Checkpoint names, in the order of the manifest."""
        return tuple(info.name for info in self.manifest)

    @property
    def nbytes(self) -> int:
        """Size of the whole, in bytes."""
        return total_bytes(self.manifest)

    @property
    def buffers(self) -> list[int]:
        """Size in bytes of each buffer that is handed over, in order."""
        return buffers(self.manifest, self.request.buffer_bytes)

    @property
    def checksum(self) -> str:
        """``posttrain.checksum.state_checksum`` of the policy's weights."""
        return combined((info.name, info.dtype, info.shape, info.digest) for info in self.manifest)


def describe(state: Mapping[str, torch.Tensor]) -> tuple[TensorInfo, ...]:
    """Make the manifest of full, unsharded tensors, sorted by name: a layer's stay together.

    Args:
        state: checkpoint name to tensor, in the engines' dtype. A tied tensor appears once, under
            the name that the checkpoint has.

    Raises:
        RefitError: there is none.
    """
    if not state:
        raise RefitError("weights for generation", "no tensors", "offer the policy's full state")
    return tuple(
        TensorInfo(
            name,
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            tensor_digest(tensor),
        )
        for name, tensor in sorted(state.items())
    )


def total_bytes(manifest: Sequence[TensorInfo]) -> int:
    """Size of all tensors together, in bytes."""
    return sum(info.nbytes for info in manifest)


def buffers(manifest: Sequence[TensorInfo], most: int) -> list[int]:
    """Cut the tensors' bytes into buffers of ``most`` bytes; the last one may be shorter."""
    total = total_bytes(manifest)
    return [min(most, total - start) for start in range(0, total, most)]


def engine_receivers(engines: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Name every rank of engines that are given as (name, tensor-parallel ranks), in order."""
    return tuple(f"{name} rank {rank}" for name, ranks in engines for rank in range(ranks))


def differences(
    wanted: Mapping[str, tuple[int, ...]], manifest: Sequence[TensorInfo], dtype: str
) -> list[str]:
    """Say, tensor by tensor, why ``manifest`` does not offer exactly the ``wanted`` shapes."""
    offered = Counter(info.name for info in manifest)
    problems = [f"{name} is missing" for name in wanted if name not in offered]
    problems += [f"{name} is offered {n} times" for name, n in offered.items() if n > 1]
    for info in manifest:
        if info.name not in wanted:
            problems.append(f"{info.name} is unexpected")
            continue
        if info.shape != wanted[info.name]:
            problems.append(f"{info.name} has shape {info.shape}, not {wanted[info.name]}")
        if info.dtype != dtype:
            problems.append(f"{info.name} has dtype {info.dtype}, not {dtype}")
    return problems
