"""A rollout of any number of turns, and whether it holds together token by token."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from posttrain.rollout.convert import measured_response
from posttrain.rollout.turn import (
    Turn,
    carriers,
    output_items,
    read_turn,
    refuse,
    text,
    was_truncated,
)
from posttrain.sample import Sample, assemble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Conversation:
    """One verified rollout.

    Attributes:
        row: index of the dataset row, from 0.
        turns: the model's calls, in order.
        reward: the verdict on all of it.
        truncated: whether the last turn ended at its length limit.
    """

    row: int
    turns: tuple[Turn, ...]
    reward: float
    truncated: bool


@dataclass(frozen=True)
class Break:
    """Where a turn's prompt stops being a continuation of the turn before.

    Attributes:
        turn: number of the turn, from 1, whose prompt it is.
        position: index of the first token of the prompt that differs, from 0.
        wanted: the token that the turn before has there.
        found: the prompt's token; None where the prompt ends.
    """

    turn: int
    position: int
    wanted: int
    found: int | None

    def __str__(self) -> str:
        found = "nothing" if self.found is None else f"token {self.found}"
        return (
            f"turn {self.turn}: its prompt has {found} at position {self.position}, where turn"
            f" {self.turn - 1} has token {self.wanted}"
        )


def to_conversation(row: int, answer: Mapping[str, Any]) -> Conversation:
    """Convert what an agent's ``/run`` returned for a dataset row.

    Args:
        row: index of the row, from 0.
        answer: the verified response: ``response`` in OpenAI's Responses form, an output item with
            the token fields for each turn, and ``reward``.

    Raises:
        WorkerError: as :func:`posttrain.rollout.convert.to_sample`; or there is no turn, or the
            agent gave up before the environment had come to its end.
    """
    response = measured_response(row, answer)
    turns = carriers(output_items(row, response))
    if not turns:
        refuse(row, "no output item with token ids")
    if not answer.get("terminated", True):
        refuse(row, f"the agent gave up after {len(turns)} turns, before the environment's end")
    return Conversation(
        row=row,
        turns=tuple(read_turn(row, item) for item in turns),
        reward=float(answer["reward"]),
        truncated=was_truncated(row, response),
    )


def to_turns_sample(row: int, answer: Mapping[str, Any]) -> Sample:
    """As :func:`posttrain.rollout.convert.to_sample`, of any number of turns.

    Raises:
        WorkerError: as :func:`to_conversation`; or a turn does not continue the turn before, so
            that no one sequence is what the model saw.
    """
    conversation = to_conversation(row, answer)
    turns = conversation.turns
    if found := breaks(turns):
        refuse(row, str(found[0]))
    last = turns[-1]
    return assemble(
        last.prompt_ids + last.completion_ids,
        [(len(it.prompt_ids), len(it.prompt_ids) + len(it.completion_ids)) for it in turns],
        [logprob for turn in turns for logprob in turn.logprobs],
        row=row,
        reward=conversation.reward,
        truncated=conversation.truncated,
        text=text(output_items(row, measured_response(row, answer))),
    )


def breaks(turns: Sequence[Turn]) -> list[Break]:
    """Every turn whose prompt does not begin with the prompt and completion of the turn before.

    Only a sequence without a break is what the model saw when it was trained on as a whole: text
    that is tokenized again may come back as other tokens.
    """
    found = []
    for number, (before, turn) in enumerate(pairwise(turns), start=2):
        wanted = before.prompt_ids + before.completion_ids
        position = first_difference(wanted, turn.prompt_ids)
        if position < len(wanted):
            there = turn.prompt_ids[position] if position < len(turn.prompt_ids) else None
            found.append(Break(number, position, wanted[position], there))
    return found


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """The first index at which two sequences differ, or the shorter one's length."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
