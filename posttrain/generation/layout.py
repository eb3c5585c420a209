"""Which part of which checkpoint tensor each live parameter of a vLLM model is.

vLLM fuses projections (``qkv_proj``, ``gate_up_proj``), shards them over tensor-parallel ranks,
pads the vocabulary, and on a CPU packs a linear layer's weight into a form that only its kernel
can read. :func:`live_pieces` undoes all that, and asks the layer itself where a packed copy is
what computes: the product with the identity is the transposed weight, to the bit (x * 1 + 0 * w
is exact for finite w, only a negative zero comes back as zero).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from vllm.model_executor.layers.linear import (
    ColumnParallelLinear,
    LinearBase,
    MergedColumnParallelLinear,
    QKVParallelLinear,
    RowParallelLinear,
)
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    VocabParallelEmbedding,
)

from posttrain.errors import RefitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


@dataclass(frozen=True)
class Piece:
    """A rank's live part of one checkpoint tensor.

    Attributes:
        name: checkpoint name.
        shape: of the full checkpoint tensor.
        dim: dimension that is sharded over ranks.
        start: index in ``dim`` of the full tensor at which the part begins.
        tensor: the part; smaller than ``shape`` in ``dim`` only.
    """

    name: str
    shape: tuple[int, ...]
    dim: int
    start: int
    tensor: torch.Tensor

    def of(self, full: torch.Tensor) -> torch.Tensor:
        """The same part of another full tensor."""
        return full.narrow(self.dim, self.start, self.tensor.shape[self.dim])

    def extent(self, along: torch.Tensor) -> torch.Tensor:
        """The same part of a vector that has one entry an index of ``dim``."""
        return along.narrow(0, self.start, self.tensor.shape[self.dim])


def live_pieces(model: nn.Module) -> Iterator[Piece]:
    """Read the weights that ``model`` computes with, under their checkpoint names.

    Raises:
        RefitError: naming a parameter that no rule here reads back, so that it can't go unseen.
    """
    fused = getattr(model, "packed_modules_mapping", {})
    for prefix, module in model.named_modules():
        if isinstance(module, LinearBase):
            yield from _linear(prefix, module, fused)
        elif isinstance(module, VocabParallelEmbedding):
            yield _vocabulary(prefix, module)
        else:
            for name, parameter in module.named_parameters(recurse=False):
                yield _replicated(f"{prefix}.{name}", module, parameter)


def _replicated(name: str, module: nn.Module, parameter: torch.Tensor) -> Piece:
    # A vector is never sharded in the layers that are left (norms); a matrix might be.
    if parameter.dim() != 1:
        raise RefitError(
            "the live weights, read back",
            f"{name} of {type(module).__name__}, shape {tuple(parameter.shape)}, has no rule",
            "add a rule for this layer to posttrain.generation.layout",
        )
    return Piece(name, tuple(parameter.shape), 0, 0, parameter.data)


def _weight(layer: LinearBase | VocabParallelEmbedding, columns: int) -> torch.Tensor:
    """The weight [rows, columns] that ``layer`` multiplies with."""
    if not hasattr(layer, "cpu_linear"):
        return layer.weight.data
    # A packed linear layer's own parameter is empty; an embedding keeps its.
    dtype = layer.weight.dtype if layer.weight.numel() else layer.params_dtype
    identity = torch.eye(columns, dtype=dtype)
    product: torch.Tensor = layer.quant_method.apply(layer, identity, None)
    return product.t()


def _linear(prefix: str, layer: LinearBase, fused: dict[str, list[str]]) -> Iterator[Piece]:
    parent, _, own = prefix.rpartition(".")
    rows = _row_spans(layer)
    parts = fused.get(own, [own])
    if len(parts) != len(rows):
        raise RefitError(
            "the live weights, read back",
            f"{prefix} holds {len(rows)} projections, the model names {parts}",
            "add a rule for this layer to posttrain.generation.layout",
        )
    by_column = isinstance(layer, RowParallelLinear)
    columns = layer.input_size_per_partition if by_column else layer.input_size
    weight = _weight(layer, columns)
    bias = layer.bias.data if getattr(layer, "bias", None) is not None else None
    offset = 0
    for part, (full, start, size) in zip(parts, rows, strict=True):
        name = f"{parent}.{part}"
        block = weight[offset : offset + size]
        if by_column:
            column = layer.tp_rank * columns
            yield Piece(f"{name}.weight", (full, layer.input_size), 1, column, block)
        else:
            yield Piece(f"{name}.weight", (full, layer.input_size), 0, start, block)
        if bias is not None:
            yield Piece(f"{name}.bias", (full,), 0, start, bias[offset : offset + size])
        offset += size


def _row_spans(layer: LinearBase) -> list[tuple[int, int, int]]:
    """(full rows, first row here, rows here) of each projection that ``layer`` holds."""
    if isinstance(layer, QKVParallelLinear):
        query = layer.num_heads * layer.head_size
        spans = [(layer.total_num_heads * layer.head_size, layer.tp_rank * query, query)]
        # With more ranks than key-value heads, neighbours hold the same head.
        shard = layer.tp_rank // layer.num_kv_head_replicas
        for head in (layer.head_size, layer.v_head_size):
            size = layer.num_kv_heads * head
            spans.append((layer.total_num_kv_heads * head, shard * size, size))
        return spans
    if isinstance(layer, MergedColumnParallelLinear):
        sizes = [(full, full // layer.tp_size) for full in layer.output_sizes]
        return [(full, layer.tp_rank * size, size) for full, size in sizes]
    if isinstance(layer, ColumnParallelLinear):
        size = layer.output_size_per_partition
        return [(layer.output_size, layer.tp_rank * size, size)]
    return [(layer.output_size, 0, layer.output_size)]


def _vocabulary(prefix: str, layer: VocabParallelEmbedding) -> Piece:
    indices = layer.shard_indices
    rows = indices.org_vocab_end_index - indices.org_vocab_start_index
    # The head multiplies, the embedding looks up; on a CPU those are two copies.
    head = isinstance(layer, ParallelLMHead)
    live = _weight(layer, layer.embedding_dim) if head else layer.weight.data
    full = (layer.org_vocab_size, layer.embedding_dim)
    return Piece(f"{prefix}.weight", full, 0, indices.org_vocab_start_index, live[:rows])
