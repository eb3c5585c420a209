"""Laws that every rollout keeps, and what a row expects of its own: faults by kind and place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.rollout.conversation import breaks, first_difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posttrain.rollout.conversation import Conversation
    from posttrain.rollout.expected import Expected, Stop
    from posttrain.rollout.turn import Turn

KINDS = ("prompt", "token", "logprob", "stop", "contiguity", "expectation", "repetition")


@dataclass(frozen=True)
class Fault:
    """What is wrong with a rollout.

    Attributes:
        kind: one of :data:`KINDS`.
        row: index of the dataset row.
        text: what was found where something else had to be.
    """

    kind: str
    row: int
    text: str

    def __str__(self) -> str:
        return f"row {self.row}, {self.kind}: {self.text}"


@dataclass(frozen=True)
class Limits:
    """What the model and the recipe allow.

    Attributes:
        vocabulary: token ids are below this.
        ends: the end-of-sequence tokens.
        max_new_tokens: longest completion of a turn.
    """

    vocabulary: int
    ends: frozenset[int]
    max_new_tokens: int

    def stop(self, turn: Turn) -> Stop | None:
        """Why the turn stopped; None when it had no reason to."""
        if turn.completion_ids[-1] in self.ends:
            return "end"
        return "length" if len(turn.completion_ids) == self.max_new_tokens else None


def faults(
    conversation: Conversation, limits: Limits, prompt_ids: Sequence[int], expected: Expected
) -> list[Fault]:
    """Everything that is wrong with one rollout.

    Args:
        conversation: the rollout.
        limits: what its turns must keep.
        prompt_ids: the row's prompt as the tokenizer itself renders it.
        expected: what the row says.
    """
    found = [
        *_prompt(conversation.turns[0], prompt_ids),
        *(
            (kind, f"turn {number}: {text}")
            for number, turn in enumerate(conversation.turns, start=1)
            for kind, text in (*_tokens(turn, limits), *_logprobs(turn), *_stop(turn, limits))
        ),
        *(("contiguity", str(one)) for one in breaks(conversation.turns)),
        *_expectation(conversation, limits, expected),
    ]
    return [Fault(kind, conversation.row, text) for kind, text in found]


def repetition(first: Conversation, again: Conversation) -> list[Fault]:
    """Where a rollout with the same seed is another one than the first time."""
    if [_said(turn) for turn in first.turns] == [_said(turn) for turn in again.turns]:
        return []
    pairs = enumerate(zip(first.turns, again.turns, strict=False), start=1)
    turn = next((number for number, (a, b) in pairs if _said(a) != _said(b)), None)
    text = (
        f"{len(again.turns)} turns, first {len(first.turns)}"
        if turn is None
        else f"turn {turn}: {again.turns[turn - 1].text!r}, first {first.turns[turn - 1].text!r}"
    )
    return [Fault("repetition", first.row, text)]


def logprob_difference(first: Conversation, again: Conversation) -> float:
    """The largest difference of a token's log-probability; of the tokens that both have."""
    return max(
        (
            abs(a - b)
            for one, other in zip(first.turns, again.turns, strict=False)
            for a, b in zip(one.logprobs, other.logprobs, strict=False)
        ),
        default=0.0,
    )


def _said(turn: Turn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return turn.prompt_ids, turn.completion_ids


def _prompt(turn: Turn, wanted: Sequence[int]) -> Iterator[tuple[str, str]]:
    if turn.prompt_ids != tuple(wanted):
        place = first_difference(turn.prompt_ids, wanted)
        lengths = f"{len(turn.prompt_ids)} tokens, by the chat template {len(wanted)}"
        yield "prompt", f"{lengths}, from position {place} on others"


def _tokens(turn: Turn, limits: Limits) -> Iterator[tuple[str, str]]:
    for name, ids in (("prompt", turn.prompt_ids), ("completion", turn.completion_ids)):
        strange = [place for place, token in enumerate(ids) if token >= limits.vocabulary]
        if strange:
            token = ids[strange[0]]
            yield "token", f"{name} token {token} at {strange[0]}, of {limits.vocabulary} tokens"


def _logprobs(turn: Turn) -> Iterator[tuple[str, str]]:
    for place, logprob in enumerate(turn.logprobs):
        if logprob > 0:
            yield "logprob", f"{logprob} at position {place}, above 0"
            return


def _stop(turn: Turn, limits: Limits) -> Iterator[tuple[str, str]]:
    length = len(turn.completion_ids)
    early = [place for place, token in enumerate(turn.completion_ids[:-1]) if token in limits.ends]
    if early:
        yield "stop", f"went on after the end token at position {early[0]}"
    if length > limits.max_new_tokens:
        yield "stop", f"{length} tokens, at most {limits.max_new_tokens} were asked for"
    elif limits.stop(turn) is None:
        neither = f"neither at an end token nor at the limit of {limits.max_new_tokens}"
        yield "stop", f"stopped after {length} tokens, {neither}"


def _expectation(
    conversation: Conversation, limits: Limits, expected: Expected
) -> Iterator[tuple[str, str]]:
    stops = tuple(limits.stop(turn) for turn in conversation.turns)
    if stops != expected.stops:
        yield "expectation", f"turns stop by {list(stops)} instead of {list(expected.stops)}"
    if conversation.truncated != (stops[-1] == "length"):
        said = "truncated" if conversation.truncated else "whole"
        yield "stop", f"Gym says {said}, the last turn stops by {stops[-1]}"
    if conversation.reward != expected.reward:
        yield "expectation", f"reward {conversation.reward} instead of {expected.reward}"
