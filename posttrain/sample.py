"""One verified rollout: the tokens the engine saw and produced, and what the verifier said."""

from __future__ import annotations

from dataclasses import dataclass


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
