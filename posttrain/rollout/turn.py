"""One call of the model in a rollout: the tokens that the engine saw and those that it produced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeIs

from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
# vLLM writes this number where a log-probability is minus infinity, which JSON cannot hold.
_MINUS_INFINITY = -9999.0


@dataclass(frozen=True)
class Turn:
    """One call of the model.

    Attributes:
        prompt_ids: token ids of the rendered prompt, everything said before included.
        completion_ids: token ids that the engine generated, end-of-sequence token included.
        logprobs: natural log-probabilities that the engine reported, one a completion token.
        text: the completion as text.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str = ""


def output_items(row: int, response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The output items of a response in OpenAI's Responses form.

    Raises:
        WorkerError: there is no list of them, or a message's content is no list of parts.
    """
    output = response.get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        refuse(row, "no list of output items in the response")
    for place, item in enumerate(output):
        if _is_said(item) and not _has_parts(item):
            refuse(row, f"output[{place}] is a message without a list of text parts")
    return output


def carriers(output: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The output items that bring tokens, one for each call of the model."""
    return [item for item in output if any(field in item for field in _TOKEN_FIELDS)]


def read_turn(row: int, item: Mapping[str, Any]) -> Turn:
    """The call of the model that an output item tells of.

    Args:
        row: index of the dataset row, for errors.
        item: one of :func:`carriers`.

    Raises:
        WorkerError: a token field is missing, empty, not finite or of another type; or the lengths
            differ.
    """
    prompt_ids, completion_ids = (_token_ids(row, item, name) for name in _TOKEN_FIELDS[:2])
    logprobs = _logprobs(row, item)
    if len(completion_ids) != len(logprobs):
        refuse(
            row,
            f"{len(completion_ids)} generation_token_ids but {len(logprobs)} generation_log_probs",
        )
    return Turn(prompt_ids, completion_ids, logprobs, text([item]))


def was_truncated(row: int, response: Mapping[str, Any]) -> bool:
    """Whether the last call hit its length limit.

    Raises:
        WorkerError: the response is incomplete for any other reason.
    """
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "max_output_tokens":
        return True
    if reason is not None or response.get("status") != "completed":
        refuse(row, f"response status {response.get('status')!r}, reason {reason!r}")
    return False


def text(output: Sequence[Mapping[str, Any]]) -> str:
    """What the model said in these output items."""
    return "".join(
        part.get("text", "")
        for item in output
        if _is_said(item)
        for part in item.get("content", ())
        if part.get("type") == "output_text"
    )


def refuse(row: int, found: str) -> NoReturn:
    """Raise the error of an answer that is no verified rollout.

    Raises:
        WorkerError: always.
    """
    raise WorkerError(
        f"row {row}: a verified rollout with its tokens",
        found,
        "look at the engine's and Gym's logs; nothing was trained on this row",
    )


def _token_ids(row: int, item: Mapping[str, Any], name: str) -> tuple[int, ...]:
    ids = item.get(name)
    if not isinstance(ids, list) or not ids:
        refuse(row, f"{name} {'is empty' if ids == [] else 'is missing'}")
    for place, token in enumerate(ids):
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            refuse(row, f"{name}[{place}] is {token!r}, not a token id")
    return tuple(ids)


def _logprobs(row: int, item: Mapping[str, Any]) -> tuple[float, ...]:
    values = item.get("generation_log_probs")
    if not isinstance(values, list):
        refuse(row, "generation_log_probs is missing")
    for place, value in enumerate(values):
        if not _is_number(value) or not math.isfinite(value) or value <= _MINUS_INFINITY:
            refuse(row, f"generation_log_probs[{place}] is {value!r}, not a finite log-probability")
    return tuple(float(value) for value in values)


def _is_said(item: Mapping[str, Any]) -> bool:
    """Whether an output item is a message of the model."""
    return item.get("type") == "message" and item.get("role") != "user"


def _has_parts(message: Mapping[str, Any]) -> bool:
    parts = message.get("content", [])
    return isinstance(parts, list) and all(
        isinstance(part, dict) and isinstance(part.get("text", ""), str) for part in parts
    )


def _is_number(value: object) -> TypeIs[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
