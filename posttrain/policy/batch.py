"""Divide samples among ranks and lay them out as padded tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch

from posttrain.policy.logprobs import Shapes, shapes
from posttrain.sampling import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posttrain.sample import Sample

PADDING_ID = 0  # any id of the vocabulary: no real token attends to a later position


def split(count: int, ranks: int) -> list[range]:
    """Divide `count` samples into one contiguous range a rank; lengths differ by at most one.

    With fewer samples than ranks, the last ranks get none.
    """
    small, larger = divmod(count, ranks)
    starts = [rank * small + min(rank, larger) for rank in range(ranks + 1)]
    return [range(starts[rank], starts[rank + 1]) for rank in range(ranks)]


def passes(mine: range, count: int, ranks: int, size: int) -> list[range]:
    """Cut a rank's range into forward passes of at most `size` samples.

    FSDP2 gathers parameters in every pass, which takes all ranks: so all have equally many passes,
    and a rank that runs out of samples goes through empty ones.
    """
    longest = max(len(part) for part in split(count, ranks))
    return [mine[start : start + size] for start in range(0, longest, size)]


@dataclass(frozen=True)
class Batch:
    """Sequences of prompt and completion tokens, padded on the right.

    Attributes:
        input_ids: token ids, shape (sequences, tokens), at least (1, 2).
        targets: the token after each position, shape (sequences, tokens - 1).
        mask: True where the target is a completion token, same shape as `targets`.
        drawn_from: what each sequence's completion was drawn from.
    """

    input_ids: torch.Tensor
    targets: torch.Tensor
    mask: torch.Tensor
    drawn_from: tuple[Distribution, ...]

    def shapes(self) -> Shapes:
        """What each completion token was drawn from, in order."""
        return shapes(self.drawn_from, self.mask.sum(-1), self.mask.device)

    def lay_out(self, values: torch.Tensor) -> torch.Tensor:
        """Put one value a completion token, in order, where its target is; zero elsewhere.

        Gradients flow to `values`, also where there is none: the result always has a history.
        """
        return values.new_zeros(self.mask.shape).masked_scatter(self.mask, values)

    def spread(self, values: Sequence[Sequence[float]]) -> torch.Tensor:
        """Lay one value a completion token out like `targets`, zero elsewhere, in float32."""
        laid_out = torch.zeros(self.mask.shape, dtype=torch.float32)
        flat = [value for row in values for value in row]
        laid_out[self.mask.cpu()] = torch.tensor(flat, dtype=torch.float32)
        return laid_out.to(self.mask.device)

    def collect(self, values: torch.Tensor) -> list[list[float]]:
        """Return the values at completion tokens, one list a sequence: the reverse of `spread`."""
        rows = zip(values.detach().cpu(), self.mask.cpu(), strict=True)
        return [row[mask].tolist() for row, mask in rows]


# Some samples' places among all, and these samples laid out.
Placed: TypeAlias = tuple[range, Batch]


def batches(
    samples: Sequence[Sample],
    drawn_from: Sequence[Distribution],
    parts: Sequence[range],
    device: torch.device,
) -> Iterator[Placed]:
    """Lay all ranks' `samples` and what each was drawn from out, one of `parts` after another."""
    for part in parts:
        chosen = [samples[place] for place in part]
        yield part, make_batch(chosen, device, [drawn_from[place] for place in part])


def make_batch(
    samples: Sequence[Sample],
    device: torch.device,
    drawn_from: Sequence[Distribution] | None = None,
) -> Batch:
    """Lay `samples` out; without any, one sequence of padding without a completion token.

    Attention is causal and padding is on the right, so the model needs no attention mask. A
    completion that was truncated has no end-of-sequence token, and none is invented: its tokens
    count like any other's, and nothing after them does. Prompt tokens between turns are in the
    sequence, since later turns were conditioned on them, and out of the mask.

    Args:
        samples: what to lay out.
        device: of the tensors.
        drawn_from: one a sample; None: the model's own distribution for all.
    """
    sequences = [sample.token_ids for sample in samples]
    width = max((len(sequence) for sequence in sequences), default=2)
    shape = (max(len(sequences), 1), width)
    input_ids = torch.full(shape, PADDING_ID, dtype=torch.long)
    mask = torch.zeros(shape, dtype=torch.bool)
    for index, (sample, sequence) in enumerate(zip(samples, sequences, strict=True)):
        input_ids[index, : len(sequence)] = torch.tensor(sequence)
        for start, end in sample.spans:
            mask[index, start:end] = True
    return Batch(
        input_ids=input_ids.to(device),
        targets=input_ids[:, 1:].to(device),
        mask=mask[:, 1:].to(device),
        drawn_from=tuple(drawn_from or [Distribution()] * shape[0]),
    )
