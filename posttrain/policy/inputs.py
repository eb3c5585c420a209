"""What a training step is given must belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.sample import Sample


def check_inputs(
    samples: Sequence[Sample],
    advantages: Sequence[Sequence[float]],
    old_logprobs: Sequence[Sequence[float]],
) -> None:
    """Demand at least one sample, and one number of each kind a completion token.

    Raises:
        StackError: with the lengths that were found.
    """
    lengths = [len(sample.completion_ids) for sample in samples]
    given = list(map(len, advantages)), list(map(len, old_logprobs))
    if not samples or given != (lengths, lengths):
        raise StackError(
            asked="samples with one advantage and one old log-probability a completion token",
            found=f"{len(samples)} samples with {lengths} completion tokens, {given[0]} advantages"
            f" and {given[1]} old log-probabilities",
            todo="pass what was computed from these very samples",
        )
