"""Divide samples among ranks and lay them out as padded tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Sequences of prompt and completion, padded on the right.

    Attributes:
        input_ids: token ids, shape (sequences, tokens), at least (1, 2).
        targets: the token after each position, shape (sequences, tokens - 1).
        mask: True where the target is a completion token, same shape as `targets`.
    """

    input_ids: torch.Tensor
    targets: torch.Tensor
    mask: torch.Tensor

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


def make_batch(samples: Sequence[Sample], device: torch.device) -> Batch:
    """Lay `samples` out; without any, one sequence of padding without a completion token.

    Attention is causal and padding is on the right, so the model needs no attention mask.
    """
    sequences = [sample.prompt_ids + sample.completion_ids for sample in samples]
    width = max((len(sequence) for sequence in sequences), default=2)
    shape = (max(len(sequences), 1), width)
    input_ids = torch.full(shape, PADDING_ID, dtype=torch.long)
    mask = torch.zeros(shape, dtype=torch.bool)
    for index, (sample, sequence) in enumerate(zip(samples, sequences, strict=True)):
        input_ids[index, : len(sequence)] = torch.tensor(sequence)
        mask[index, len(sample.prompt_ids) : len(sequence)] = True
    return Batch(
        input_ids=input_ids.to(device),
        targets=input_ids[:, 1:].to(device),
        mask=mask[:, 1:].to(device),
    )
