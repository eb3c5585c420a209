"""What every rank of an engine can do in a refit: check, load, read back.

vLLM mixes this class into its worker (``worker_extension_cls``); the methods are called by
``collective_rpc``. Problems are returned, not raised, because an exception loses its words on the
way from another rank's process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError
from posttrain.generation.layout import Piece, live_pieces
from posttrain.refit.transport import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from posttrain.refit.transport import TensorInfo, Weights


@dataclass(frozen=True)
class Readback:
    """One rank's live weights, as digests. Plain Python.

    Attributes:
        rank: tensor-parallel rank.
        spans: (name, dim, start, stop, full size in dim) of each part that this rank holds.
        checksum: ``state_checksum`` of the parts under their checkpoint names; on a single rank
            that is the checksum of the full state.
        differing: names whose live part is not, to the bit, that part of the compared weights.
    """

    rank: int
    spans: tuple[tuple[str, int, int, int, int], ...]
    checksum: str
    differing: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Checkpoint names, sorted."""
        return tuple(sorted(name for name, *_ in self.spans))


class RefitExtension:
    """Methods that vLLM's worker gets; ``rank`` and ``model_runner`` are the worker's."""

    rank: int
    model_runner: Any

    @torch.no_grad()
    def refit_check(self, manifest: list[TensorInfo]) -> list[str]:
        """Say, tensor by tensor, why ``manifest`` is not this rank's model; load nothing."""
        wanted = {piece.name: piece.shape for piece in live_pieces(self.model_runner.get_model())}
        dtype = str(self.model_runner.model_config.dtype).removeprefix("torch.")
        return differences(wanted, manifest, dtype)

    def refit_load(self, path: str) -> None:
        """Load the weights at ``path``; after an exception the model must not serve."""
        with opened(Path(path)) as weights:
            # ``load_weights`` would stop half-way on a CPU, whose linear layers are packed.
            self.model_runner.reload_weights(
                weights_iterator=_tensors(weights), is_checkpoint_format=True
            )

    @torch.no_grad()
    def refit_readback(self, path: str | None = None) -> Readback:
        """Digest the live weights, and compare them with those at ``path`` if one is given."""
        pieces = list(live_pieces(self.model_runner.get_model()))
        differing: list[str] = []
        if path is not None:
            with opened(Path(path)) as weights:
                differing = [
                    piece.name
                    for piece in pieces
                    if not torch.equal(piece.tensor.cpu(), piece.of(weights.tensor(piece.name)))
                ]
        return Readback(
            rank=self.rank,
            spans=tuple(
                (
                    piece.name,
                    piece.dim,
                    piece.start,
                    piece.start + piece.tensor.shape[piece.dim],
                    piece.shape[piece.dim],
                )
                for piece in pieces
            ),
            checksum=state_checksum((piece.name, piece.tensor) for piece in pieces),
            differing=tuple(differing),
        )

    @torch.no_grad()
    def refit_pieces(self) -> list[Piece]:
        """This rank's live parts themselves, in host memory."""
        pieces = live_pieces(self.model_runner.get_model())
        return [replace(piece, tensor=piece.tensor.cpu().contiguous()) for piece in pieces]


def assembled(pieces: Iterable[Piece]) -> dict[str, torch.Tensor]:
    """Full tensors from the parts of all ranks; where parts overlap they must be equal.

    Raises:
        RefitError: parts contradict each other, or leave a gap.
    """
    full: dict[str, torch.Tensor] = {}
    known: dict[str, torch.Tensor] = {}
    for piece in pieces:
        if piece.name not in full:
            full[piece.name] = torch.zeros(piece.shape, dtype=piece.tensor.dtype)
            known[piece.name] = torch.zeros(piece.shape[piece.dim], dtype=torch.bool)
        target, seen = piece.of(full[piece.name]), piece.extent(known[piece.name])
        both = seen.nonzero().squeeze(-1)
        if not torch.equal(
            target.index_select(piece.dim, both), piece.tensor.index_select(piece.dim, both)
        ):
            raise RefitError(
                f"the live weights of all ranks, {piece.name}",
                "ranks that hold the same part differ",
                "don't generate with this worker; start a new one",
            )
        target.copy_(piece.tensor)
        seen.fill_(value=True)
    if gaps := sorted(name for name, seen in known.items() if not bool(seen.all())):
        raise RefitError(
            "the live weights of all ranks",
            f"no rank serves all of {', '.join(gaps)}",
            "don't generate with this worker; start a new one",
        )
    return full


def differences(
    wanted: Mapping[str, tuple[int, ...]], manifest: list[TensorInfo], dtype: str
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


def uncovered(readbacks: list[Readback]) -> list[str]:
    """Names of tensors that all ranks together don't hold in full."""
    spans: dict[str, list[tuple[int, int]]] = {}
    sizes: dict[str, int] = {}
    for readback in readbacks:
        for name, _dim, start, stop, size in readback.spans:
            spans.setdefault(name, []).append((start, stop))
            sizes[name] = size
    gaps = []
    for name, parts in spans.items():
        reached = 0
        for start, stop in sorted(parts):
            if start <= reached:
                reached = max(reached, stop)
        if reached != sizes[name]:
            gaps.append(name)
    return gaps


def _tensors(weights: Weights) -> Iterator[tuple[str, torch.Tensor]]:
    for info in weights.manifest():
        yield info.name, weights.tensor(info.name)
