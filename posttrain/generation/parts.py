"""Parts of checkpoint tensors, and what a rank of an engine says of those that it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch


@dataclass(frozen=True)
class Span:
    """Which part of one checkpoint tensor a rank holds.

    Attributes:
        name: checkpoint name.
        shape: of the full checkpoint tensor.
        dim: dimension that is sharded over ranks.
        start: index in ``dim`` of the full tensor at which the part begins.
        size: of the part in ``dim``; in other dimensions it is as large as the tensor.
    """

    name: str
    shape: tuple[int, ...]
    dim: int
    start: int
    size: int

    @property
    def whole(self) -> bool:
        """Whether the part is the tensor."""
        return self.size == self.shape[self.dim]

    def of(self, full: torch.Tensor) -> torch.Tensor:
        """This part of a full tensor."""
        return full.narrow(self.dim, self.start, self.size)

    def extent(self, along: torch.Tensor) -> torch.Tensor:
        """This part of a vector that has one entry an index of ``dim``."""
        return along.narrow(0, self.start, self.size)


@dataclass(frozen=True)
class Piece:
    """A rank's live part of one checkpoint tensor."""

    span: Span
    tensor: torch.Tensor

    @property
    def name(self) -> str:
        """Checkpoint name."""
        return self.span.name


@dataclass(frozen=True)
class Loaded:
    """What became of loading on one rank. Plain Python.

    Attributes:
        rank: tensor-parallel rank.
        began: whether the model may have changed; without a problem it has all new weights.
        digests: of this rank's part of each tensor, as it arrived, by checkpoint name.
        problem: why not everything was loaded, with the tensor's name; empty when it was.
    """

    rank: int
    began: bool
    digests: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class Held:
    """A part of a tensor as it was read back.

    Attributes:
        span: which part of which tensor.
        dtype: torch's name without ``torch.``.
        digest: ``posttrain.checksum.tensor_digest`` of the part.
    """

    span: Span
    dtype: str
    digest: str


@dataclass(frozen=True)
class Readback:
    """One rank's live weights, as digests. Plain Python.

    Attributes:
        rank: tensor-parallel rank.
        parts: each part that this rank holds.
    """

    rank: int
    parts: tuple[Held, ...]
