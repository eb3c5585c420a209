"""What every rank of an engine can do in a refit: check, load, read back.

vLLM mixes this class into its worker (``worker_extension_cls``); the methods are called by
``collective_rpc``. Problems are returned, not raised, because an exception loses its words on the
way from another rank's process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from posttrain.checksum import tensor_digest
from posttrain.errors import RefitError, StackError
from posttrain.generation.layout import live_pieces, live_spans, repack_tied_heads
from posttrain.generation.parts import Held, Loaded, Readback
from posttrain.refit.offer import differences
from posttrain.refit.stream import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posttrain.generation.parts import Piece, Span
    from posttrain.refit.offer import Offer, TensorInfo


class RefitExtension:
    """Methods that vLLM's worker gets; ``rank`` and ``model_runner`` are the worker's."""

    rank: int
    model_runner: Any

    @torch.no_grad()
    def refit_check(self, manifest: Sequence[TensorInfo]) -> list[str]:
        """Say, tensor by tensor, why ``manifest`` is not this rank's model; load nothing."""
        try:
            spans = live_spans(self.model_runner.get_model())
        except RefitError as error:
            return [str(error)]
        dtype = str(self.model_runner.model_config.dtype).removeprefix("torch.")
        return differences({span.name: span.shape for span in spans}, manifest, dtype)

    @torch.no_grad()
    def refit_load(self, offer: Offer, first: int) -> Loaded:
        """Load what is offered; if it began and has a problem, the model must not serve.

        Args:
            offer: whose manifest was checked.
            first: the place of this engine's rank 0 among the offer's receivers.
        """
        began, arrival = False, None
        digests: dict[str, str] = {}
        try:
            with offer.link.receiving(offer, first + self.rank) as buffers:
                began = True
                arrival = Arrival(offer.manifest, buffers)
                spans = {span.name: span for span in live_spans(self.model_runner.get_model())}
                tensors = _recorded(arrival, spans, digests)
                # ``load_weights`` would stop half-way on a CPU, whose linear layers are packed.
                self.model_runner.reload_weights(
                    weights_iterator=tensors, is_checkpoint_format=True
                )
                repack_tied_heads(self.model_runner.get_model())
                if unread := sorted({*offer.names} - {*digests}):
                    return Loaded(self.rank, began, problem=f"{', '.join(unread)} not loaded")
        except StackError as error:
            return Loaded(
                self.rank, began, problem=_while(arrival, f"{error.asked}: {error.found}")
            )
        except Exception as error:  # noqa: BLE001 - whatever stopped the load, the engine must know
            found = f"{type(error).__name__}: {error}"
            return Loaded(self.rank, began, problem=_while(arrival, found))
        return Loaded(self.rank, began, digests)

    @torch.no_grad()
    def refit_readback(self) -> Readback:
        """Digest the live weights."""
        return Readback(
            self.rank,
            tuple(
                Held(
                    piece.span,
                    str(piece.tensor.dtype).removeprefix("torch."),
                    tensor_digest(piece.tensor),
                )
                for piece in live_pieces(self.model_runner.get_model())
            ),
        )

    @torch.no_grad()
    def refit_pieces(self) -> list[Piece]:
        """This rank's live parts themselves, in host memory."""
        pieces = live_pieces(self.model_runner.get_model())
        return [replace(piece, tensor=piece.tensor.cpu().contiguous()) for piece in pieces]


def _recorded(
    arrival: Arrival, spans: Mapping[str, Span], digests: dict[str, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Pass tensors on to a loader, and take down what this rank must then hold of each.

    Where a rank holds a tensor whole, the policy's own digest says it; of a part it is taken here,
    from a tensor that is first proved to be the policy's.
    """
    for info, tensor in arrival.tensors():
        span = spans[info.name]
        if not span.whole and tensor_digest(tensor) != info.digest:
            raise RefitError(
                f"{info.name} as the policy holds it", "other bytes arrived", "look at the network"
            )
        digests[info.name] = info.digest if span.whole else tensor_digest(span.of(tensor))
        yield info.name, tensor


def _while(arrival: Arrival | None, found: str) -> str:
    where = "meeting the sender" if arrival is None else f"at {arrival.current.name}"
    return f"{where}: {found}"
