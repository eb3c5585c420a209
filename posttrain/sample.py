"""One verified rollout: the tokens the engine saw and produced, and what the verifier said."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NotRequired, TypedDict, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Sample:
    """One prompt with one completion. Plain Python, so that every worker can unpickle it.

    Attributes:
        row: index of the dataset row, from 0.
        prompt_ids: token ids of the rendered prompt.
        completion_ids: token ids that the engine generated, end-of-sequence token included.
        logprobs: natural log-probabilities that the engine reported, one a completion token.
        reward: the verifier's verdict.
        truncated: whether generation ended at its length limit.
        text: the completion as text, for people.
        weight_version: of the weights that generated it; None where nobody has said so, and then
            nothing is trained on it.
    """

    row: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float
    truncated: bool
    text: str = ""
    weight_version: int | None = None

    def __post_init__(self) -> None:
        if not self.prompt_ids or not self.completion_ids:
            msg = f"row {self.row}: a sample needs prompt and completion tokens"
            raise ValueError(msg)
        if len(self.completion_ids) != len(self.logprobs):
            msg = (
                f"row {self.row}: {len(self.completion_ids)} completion tokens"
                f" but {len(self.logprobs)} log-probabilities"
            )
            raise ValueError(msg)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The whole sequence, which the policy sees."""
        return self.prompt_ids + self.completion_ids

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where completion tokens are in the sequence: (first, one after the last), in order."""
        return ((len(self.prompt_ids), len(self.prompt_ids) + len(self.completion_ids)),)


@dataclass(frozen=True)
class MultiTurnSample(Sample):
    """A conversation as one sequence: prompt tokens stand between the completions of its turns.

    What counts is the same as in a sample of one turn: ``completion_ids`` are the tokens that the
    engine generated, of all turns, and only they have log-probabilities, advantages and a loss.

    Attributes:
        insertions: prompt tokens between turns: the completion token that they stand before, by its
            place, and their ids. Places rise, and lie between the first and the last one.
    """

    insertions: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = [0, *(place for place, _ in self.insertions), len(self.completion_ids)]
        rising = all(before < after for before, after in pairwise(bounds))
        if not self.insertions or not rising or not all(ids for _, ids in self.insertions):
            msg = (
                f"row {self.row}: insertions {self.insertions} are not prompt tokens between turns"
            )
            raise ValueError(msg)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The whole sequence, which the policy sees."""
        ids, start = self.prompt_ids, 0
        for place, inserted in self.insertions:
            ids += self.completion_ids[start:place] + inserted
            start = place
        return ids + self.completion_ids[start:]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where completion tokens are in the sequence: (first, one after the last), in order."""
        spans: list[tuple[int, int]] = []
        start, position = 0, len(self.prompt_ids)
        for place, inserted in (*self.insertions, (len(self.completion_ids), ())):
            spans.append((position, position + place - start))
            position += place - start + len(inserted)
            start = place
        return tuple(spans)


class Told(TypedDict):
    """What is told of a sample besides its tokens: see :class:`Sample`."""

    row: int
    reward: float
    truncated: bool
    text: NotRequired[str]
    weight_version: NotRequired[int | None]


def assemble(
    token_ids: Sequence[int],
    spans: Sequence[tuple[int, int]],
    logprobs: Sequence[float],
    **told: Unpack[Told],
) -> Sample:
    """The sample of a whole sequence: the inverse of ``token_ids`` and ``spans``.

    Args:
        token_ids: the sequence.
        spans: of its generated tokens, (first, one after the last), in order; the sequence begins
            with another token and ends with the last of these.
        logprobs: one a generated token.
        told: the other fields of :class:`Sample`.

    Raises:
        ValueError: the spans are not like that, or the number of log-probabilities is another.
    """
    bounds = [place for span in spans for place in span]
    inside = all(start < end for start, end in spans) and bounds == sorted(bounds)
    if not inside or not bounds or bounds[0] < 1 or bounds[-1] != len(token_ids):
        sequence = f"a sequence of {len(token_ids)} tokens"
        msg = f"row {told['row']}: spans {list(spans)} do not end {sequence}"
        raise ValueError(msg)
    ids = tuple(token_ids)
    completion_ids: tuple[int, ...] = ()
    insertions: list[tuple[int, tuple[int, ...]]] = []
    after = bounds[0]
    for start, end in spans:
        if start > after:
            insertions.append((len(completion_ids), ids[after:start]))
        completion_ids += ids[start:end]
        after = end
    kind = partial(MultiTurnSample, insertions=tuple(insertions)) if insertions else Sample
    return kind(
        prompt_ids=ids[: bounds[0]],
        completion_ids=completion_ids,
        logprobs=tuple(logprobs),
        **told,
    )
