"""A Gym agent's answer as a sample, or an error that says what the answer lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posttrain.environment.reward import flaw
from posttrain.rollout.turn import carriers, output_items, read_turn, refuse, text, was_truncated
from posttrain.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def to_sample(row: int, answer: Mapping[str, Any]) -> Sample:
    """Convert what the agent's ``/run`` returned for a dataset row.

    Args:
        row: index of the row, from 0.
        answer: the verified response: ``response`` in OpenAI's Responses form, one output item
            carrying the token fields, and ``reward``.

    Raises:
        WorkerError: a token field or the reward is missing, empty, not finite or of another type;
            the lengths differ; the environment itself says that the reward measures nothing.
    """
    response = measured_response(row, answer)
    output = output_items(row, response)
    turns = carriers(output)
    if len(turns) != 1:
        refuse(row, f"{len(turns)} output items with token ids instead of 1")
    turn = read_turn(row, turns[0])
    return Sample(
        row=row,
        prompt_ids=turn.prompt_ids,
        completion_ids=turn.completion_ids,
        logprobs=turn.logprobs,
        reward=float(answer["reward"]),
        truncated=was_truncated(row, response),
        text=text(output),
    )


def measured_response(row: int, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response in an answer whose reward measures it.

    Raises:
        WorkerError: there is no response, or the reward is no measurement.
    """
    if reason := flaw(answer):
        refuse(row, reason)
    response = answer.get("response")
    if not isinstance(response, dict):
        refuse(row, f"response {response!r} instead of an object")
    return response


def accuracy(samples: Sequence[Sample]) -> float:
    """The share of samples whose reward is exactly 1, in [0, 1].

    Raises:
        ValueError: there are no samples, so there is no share.
    """
    if not samples:
        msg = "accuracy of no samples"
        raise ValueError(msg)
    return sum(sample.reward == 1 for sample in samples) / len(samples)
