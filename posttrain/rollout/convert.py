"""A Gym agent's answer as a sample, or an error that says what the answer lacks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, TypeIs

from posttrain.errors import WorkerError
from posttrain.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
# vLLM writes this number where a log-probability is minus infinity, which JSON cannot hold.
_MINUS_INFINITY = -9999.0


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
    if answer.get("mask_sample"):
        reason = answer.get("failure_reason") or answer.get("failure_kind") or "no reason given"
        _refuse(row, f"the environment masked the sample: {reason}")
    response = answer.get("response")
    if not isinstance(response, dict):
        _refuse(row, f"response {response!r} instead of an object")
    output = response.get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        _refuse(row, "no list of output items in the response")
    carriers = [item for item in output if any(field in item for field in _TOKEN_FIELDS)]
    if len(carriers) != 1:
        _refuse(row, f"{len(carriers)} output items with token ids instead of 1")
    prompt_ids, completion_ids = (_token_ids(row, carriers[0], name) for name in _TOKEN_FIELDS[:2])
    logprobs = _logprobs(row, carriers[0])
    if len(completion_ids) != len(logprobs):
        _refuse(
            row,
            f"{len(completion_ids)} generation_token_ids but {len(logprobs)} generation_log_probs",
        )
    reward = answer.get("reward")
    if not _is_number(reward) or not math.isfinite(reward):
        _refuse(row, f"reward {reward!r} instead of a finite number")
    return Sample(
        row=row,
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        logprobs=logprobs,
        reward=float(reward),
        truncated=_truncated(row, response),
        text=_text(output),
    )


def accuracy(samples: Sequence[Sample]) -> float:
    """The share of samples whose reward is exactly 1, in [0, 1].

    Raises:
        ValueError: there are no samples, so there is no share.
    """
    if not samples:
        msg = "accuracy of no samples"
        raise ValueError(msg)
    return sum(sample.reward == 1 for sample in samples) / len(samples)


def _token_ids(row: int, item: Mapping[str, Any], name: str) -> tuple[int, ...]:
    ids = item.get(name)
    if not isinstance(ids, list) or not ids:
        _refuse(row, f"{name} {'is empty' if ids == [] else 'is missing'}")
    for place, token in enumerate(ids):
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            _refuse(row, f"{name}[{place}] is {token!r}, not a token id")
    return tuple(ids)


def _logprobs(row: int, item: Mapping[str, Any]) -> tuple[float, ...]:
    values = item.get("generation_log_probs")
    if not isinstance(values, list):
        _refuse(row, "generation_log_probs is missing")
    for place, value in enumerate(values):
        if not _is_number(value) or not math.isfinite(value) or value <= _MINUS_INFINITY:
            _refuse(
                row, f"generation_log_probs[{place}] is {value!r}, not a finite log-probability"
            )
    return tuple(float(value) for value in values)


def _truncated(row: int, response: Mapping[str, Any]) -> bool:
    """Whether generation hit its length limit; any other incomplete response is refused."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "max_output_tokens":
        return True
    if reason is not None or response.get("status") != "completed":
        _refuse(row, f"response status {response.get('status')!r}, reason {reason!r}")
    return False


def _text(output: Sequence[Mapping[str, Any]]) -> str:
    return "".join(
        part.get("text", "")
        for item in output
        if item.get("type") == "message"
        for part in item.get("content", ())
        if part.get("type") == "output_text"
    )


def _is_number(value: object) -> TypeIs[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse(row: int, found: str) -> NoReturn:
    raise WorkerError(
        f"row {row}: a verified rollout with its tokens",
        found,
        "look at the engine's and Gym's logs; nothing was trained on this row",
    )
