"""Which part of which checkpoint tensor each live parameter of a vLLM model is.

vLLM fuses projections (``qkv_proj``, ``gate_up_proj``), shards them over tensor-parallel ranks,
pads the vocabulary, and on a CPU packs a linear layer's weight into a form that only its kernel
can read. :func:`live_pieces` undoes all that, and asks the layer itself where a packed copy is
what computes: the product with the identity is the transposed weight, to the bit (x * 1 + 0 * w
is exact for finite w, only a negative zero comes back as zero).
"""

from __future__ import annotations

from functools import cache, partial
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
from posttrain.generation.parts import Piece, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    Read = Callable[[], torch.Tensor]


def live_spans(model: nn.Module) -> list[Span]:
    """Which parts of which checkpoint tensors ``model`` computes with; reads no weights.

    Raises:
        RefitError: see :func:`live_pieces`.
    """
    return [span for span, _ in _live(model)]


def live_pieces(model: nn.Module) -> Iterator[Piece]:
    """Read the weights that ``model`` computes with, under their checkpoint names.

    Raises:
        RefitError: naming a parameter that no rule here reads back, so that it can't go unseen.
    """
    return (Piece(span, read()) for span, read in _live(model))


def _live(model: nn.Module) -> Iterator[tuple[Span, Read]]:
    fused = getattr(model, "packed_modules_mapping", {})
    tied = {head: name for name, head, _ in _tied_heads(model)}
    for prefix, module in model.named_modules():
        if isinstance(module, LinearBase):
            yield from _linear(prefix, module, fused)
        elif isinstance(module, VocabParallelEmbedding):
            yield _vocabulary(tied.get(prefix, prefix), module)
        else:
            for name, parameter in module.named_parameters(recurse=False):
                yield _replicated(f"{prefix}.{name}", module, parameter)


def repack_tied_heads(model: nn.Module) -> None:
    """Have heads that are tied to an embedding follow its new weight.

    A reload prepares a layer for its kernel when the layer's own tensors have come. A tied head has
    none, and on a CPU would go on computing with its packed copy of the former weight.
    """
    for _, _, head in _tied_heads(model):
        head.quant_method.process_weights_after_loading(head)


def _tied_heads(model: nn.Module) -> list[tuple[str, str, ParallelLMHead]]:
    """(embedding's name, head's name, head) of each head whose weight is an embedding's."""
    tables = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, VocabParallelEmbedding)
    ]
    return [
        (name, head_name, head)
        for head_name, head in tables
        if isinstance(head, ParallelLMHead)
        for name, table in tables
        if table is not head and table.weight is head.weight
    ]


def _replicated(name: str, module: nn.Module, parameter: torch.Tensor) -> tuple[Span, Read]:
    # A vector is never sharded in the layers that are left (norms); a matrix might be.
    if parameter.dim() != 1:
        raise RefitError(
            "the live weights, read back",
            f"{name} of {type(module).__name__}, shape {tuple(parameter.shape)}, has no rule",
            "add a rule for this layer to posttrain.generation.layout",
        )
    return Span(name, tuple(parameter.shape), 0, 0, len(parameter)), lambda: parameter.data


def _weight(layer: LinearBase | VocabParallelEmbedding, columns: int) -> torch.Tensor:
    """The weight [rows, columns] that ``layer`` multiplies with."""
    if not hasattr(layer, "cpu_linear"):
        return layer.weight.data
    # A packed linear layer's own parameter is empty; an embedding keeps its.
    dtype = layer.weight.dtype if layer.weight.numel() else layer.params_dtype
    identity = torch.eye(columns, dtype=dtype)
    product: torch.Tensor = layer.quant_method.apply(layer, identity, None)
    return product.t()


def _linear(
    prefix: str, layer: LinearBase, fused: dict[str, list[str]]
) -> Iterator[tuple[Span, Read]]:
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
    # Read once for all projections.
    weight = cache(partial(_weight, layer, columns))
    has_bias = getattr(layer, "bias", None) is not None

    def bias() -> torch.Tensor:
        return layer.bias.data

    offset = 0
    for part, (full, start, size) in zip(parts, rows, strict=True):
        name, mine = f"{parent}.{part}", slice(offset, offset + size)
        shape = (full, layer.input_size)
        span = (
            Span(f"{name}.weight", shape, 1, layer.tp_rank * columns, columns)
            if by_column
            else Span(f"{name}.weight", shape, 0, start, size)
        )
        yield span, partial(_rows, weight, mine)
        if has_bias:
            yield Span(f"{name}.bias", (full,), 0, start, size), partial(_rows, bias, mine)
        offset += size


def _rows(read: Read, mine: slice) -> torch.Tensor:
    return read()[mine]


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


def _vocabulary(prefix: str, layer: VocabParallelEmbedding) -> tuple[Span, Read]:
    indices = layer.shard_indices
    start = indices.org_vocab_start_index
    rows = indices.org_vocab_end_index - start

    def read() -> torch.Tensor:
        # The head multiplies, the embedding looks up; on a CPU those are two copies.
        head = isinstance(layer, ParallelLMHead)
        return (_weight(layer, layer.embedding_dim) if head else layer.weight.data)[:rows]

    shape = (layer.org_vocab_size, layer.embedding_dim)
    return Span(f"{prefix}.weight", shape, 0, start, rows), read
