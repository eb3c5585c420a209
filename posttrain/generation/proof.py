"""What all ranks of an engine together serve, and whether that is what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

from posttrain.errors import RefitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from posttrain.generation.parts import Loaded, Piece, Readback

T = TypeVar("T")
_REMEDY = "don't generate with this worker; start a new one"


def of_all_ranks(asked: str, answers: Iterable[object], kind: type[T], ranks: int) -> list[T]:
    """The ranks' answers, when there is one of each and nothing else.

    Raises:
        RefitError: some answer is missing, or is of another kind.
    """
    every = list(answers)
    found = [each for each in every if isinstance(each, kind)]
    if len(every) != ranks or len(found) != ranks:
        raise RefitError(
            asked,
            f"{every!r} instead of {ranks} answers of the kind {kind.__name__}",
            "this worker is ended; read its log",
        )
    return found


def unproven(loaded: Sequence[Loaded], live: Sequence[Readback]) -> list[str]:
    """Say, rank by rank and tensor by tensor, which live weights are not those that were sent.

    Args:
        loaded: what each rank took down while it loaded.
        live: what each rank read back afterwards, in the same order.
    """
    problems = []
    for sent, held in zip(loaded, live, strict=True):
        # Where a tensor is live twice, both places count.
        wrong = {
            part.span.name for part in held.parts if part.digest != sent.digests.get(part.span.name)
        }
        unseen = {*sent.digests} - {part.span.name for part in held.parts}
        rank = f"rank {held.rank}:"
        problems += [f"{rank} {name} differs from what was sent" for name in sorted(wrong)]
        problems += [f"{rank} {name} was sent and is not live" for name in sorted(unseen)]
    return problems + [f"no rank serves all of {name}" for name in uncovered(live)]


def uncovered(readbacks: Sequence[Readback]) -> list[str]:
    """Names of tensors that all ranks together don't hold in full."""
    spans: dict[str, list[tuple[int, int]]] = {}
    sizes: dict[str, int] = {}
    for readback in readbacks:
        for span in (part.span for part in readback.parts):
            spans.setdefault(span.name, []).append((span.start, span.start + span.size))
            sizes[span.name] = span.shape[span.dim]
    gaps = []
    for name, parts in spans.items():
        reached = 0
        for start, stop in sorted(parts):
            if start <= reached:
                reached = max(reached, stop)
        if reached != sizes[name]:
            gaps.append(name)
    return gaps


def assembled(pieces: Iterable[Piece]) -> dict[str, torch.Tensor]:
    """Full tensors from the parts of all ranks; where parts overlap they must be equal.

    Raises:
        RefitError: parts contradict each other, or leave a gap.
    """
    full: dict[str, torch.Tensor] = {}
    known: dict[str, torch.Tensor] = {}
    for piece in pieces:
        span = piece.span
        if span.name not in full:
            full[span.name] = torch.zeros(span.shape, dtype=piece.tensor.dtype)
            known[span.name] = torch.zeros(span.shape[span.dim], dtype=torch.bool)
        target, seen = span.of(full[span.name]), span.extent(known[span.name])
        both = seen.nonzero().squeeze(-1)
        if not torch.equal(
            target.index_select(span.dim, both), piece.tensor.index_select(span.dim, both)
        ):
            raise RefitError(
                f"the live weights of all ranks, {span.name}",
                "ranks that hold the same part differ",
                _REMEDY,
            )
        target.copy_(piece.tensor)
        seen.fill_(value=True)
    if gaps := sorted(name for name, seen in known.items() if not bool(seen.all())):
        raise RefitError(
            "the live weights of all ranks", f"no rank serves all of {', '.join(gaps)}", _REMEDY
        )
    return full
