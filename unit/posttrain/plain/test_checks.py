"""Each way in which a rollout can be wrong is one fault of its kind, and a right one has none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.data import Row
from posttrain.errors import DataError, ModelError
from posttrain.rollout.checks import Limits, faults, logprob_difference, repetition
from posttrain.rollout.conversation import Conversation
from posttrain.rollout.expected import Expected, read_expected
from posttrain.rollout.reference import read_limits
from posttrain.rollout.turn import Turn

if TYPE_CHECKING:
    from pathlib import Path

END = 9
LIMITS = Limits(vocabulary=10, ends=frozenset({END}), max_new_tokens=3)
PROMPT = (1, 2)
FIRST = Turn(PROMPT, (3, 4, 5), (-0.1, -0.2, 0.0), "cut")
SECOND = Turn((1, 2, 3, 4, 5, 9, 6), (7, END), (-0.3, -0.4), "ended")
RIGHT = Conversation(4, (FIRST, SECOND), 1.0, truncated=False)
EXPECTED = Expected(("length", "end"), 1.0)


def found(conversation: Conversation, **other: Any) -> list[tuple[str, str]]:
    asked = {"limits": LIMITS, "prompt_ids": PROMPT, "expected": EXPECTED, **other}
    return [(fault.kind, fault.text) for fault in faults(conversation, **asked)]


def second(**changed: Any) -> Conversation:
    return replace(RIGHT, turns=(FIRST, replace(SECOND, **changed)))


def test_a_right_rollout_has_no_fault() -> None:
    assert found(RIGHT) == []


@pytest.mark.parametrize(
    ("conversation", "fault"),
    [
        (second(prompt_ids=(1, 2, 3, 9, 5)), ("contiguity", "turn 2: its prompt has token 9 at")),
        (second(prompt_ids=(*SECOND.prompt_ids, 10)), ("token", "turn 2: prompt token 10 at 7")),
        (second(logprobs=(-0.3, 1e-9)), ("logprob", "turn 2: 1e-09 at position 1, above 0")),
        (
            second(completion_ids=(END, END)),
            ("stop", "turn 2: went on after the end token at position 0"),
        ),
        (replace(RIGHT, reward=0.0), ("expectation", "reward 0.0 instead of 1.0")),
        (replace(RIGHT, truncated=True), ("stop", "Gym says truncated, the last turn stops by")),
    ],
)
def test_a_fault_is_found_by_kind_and_place(
    conversation: Conversation, fault: tuple[str, str]
) -> None:
    ((kind, text),) = found(conversation)
    assert kind == fault[0]
    assert text.startswith(fault[1])


def test_a_prompt_that_the_template_does_not_make_is_a_fault() -> None:
    assert found(RIGHT, prompt_ids=(1, 7, 2)) == [
        ("prompt", "2 tokens, by the chat template 3, from position 1 on others")
    ]


def test_a_turn_that_stops_without_a_reason_is_a_fault() -> None:
    stopped = second(completion_ids=(7, 8))
    assert found(stopped) == [
        ("stop", "turn 2: stopped after 2 tokens, neither at an end token nor at the limit of 3"),
        ("expectation", "turns stop by ['length', None] instead of ['length', 'end']"),
    ]


def test_a_turn_beyond_the_limit_is_a_fault() -> None:
    long = second(completion_ids=(7, 7, 7, END), logprobs=(-0.1,) * 4)
    assert found(long) == [("stop", "turn 2: 4 tokens, at most 3 were asked for")]


def test_another_number_of_turns_than_expected_is_a_fault() -> None:
    once = replace(RIGHT, turns=(FIRST,), truncated=True)
    assert found(once) == [("expectation", "turns stop by ['length'] instead of ['length', 'end']")]


def test_the_same_tokens_are_a_repetition_and_others_are_not() -> None:
    assert repetition(RIGHT, second(logprobs=(-0.5, -0.4))) == []
    (fault,) = repetition(RIGHT, second(completion_ids=(8, END), text="other"))
    assert str(fault) == "row 4, repetition: turn 2: 'other', first 'ended'"
    (fault,) = repetition(RIGHT, replace(RIGHT, turns=(FIRST,)))
    assert fault.text == "1 turns, first 2"


def test_the_largest_difference_of_a_log_probability_counts() -> None:
    assert logprob_difference(RIGHT, RIGHT) == 0.0
    assert logprob_difference(RIGHT, second(logprobs=(-0.5, -0.45))) == pytest.approx(0.2)


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"stops": ["end"]},
        {"stops": [], "reward": 1.0},
        {"stops": "end", "reward": 1.0},
        {"stops": ["stop"], "reward": 1.0},
        {"stops": ["end"], "reward": None},
        {"stops": ["end"], "reward": True},
        {"stops": ["end"], "reward": float("inf")},
        {"stops": ["end"], "reward": 1.0, "turns": 1},
    ],
)
def test_a_row_that_does_not_say_what_its_rollout_is_like_is_refused(said: Any) -> None:
    raw = {} if said is None else {"rollout": said}
    with pytest.raises(DataError) as error:
        read_expected(Row(5, raw))
    assert error.value.asked == "row 5: what its rollout must be like"
    assert error.value.found.startswith("no key 'rollout'" if said is None else "rollout = {")


def test_what_a_row_says_is_read() -> None:
    said = {"stops": ["length", "end"], "reward": 1}
    assert read_expected(Row(0, {"rollout": said})) == EXPECTED


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        ({"vocab_size": 5, "eos_token_id": 3}, None, {3}),
        ({"vocab_size": 5, "eos_token_id": 3}, {"eos_token_id": [3, 4]}, {3, 4}),
        ({"vocab_size": 5}, {"eos_token_id": 0}, {0}),
        ({"vocab_size": 5}, {}, None),
        ({"eos_token_id": 3}, None, None),
    ],
)
def test_the_models_own_files_say_its_limits(
    tmp_path: Path, config: dict[str, Any], generation: dict[str, Any] | None, ends: set[int] | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    if ends is None:
        with pytest.raises(ModelError, match="vocabulary and end-of-sequence tokens"):
            read_limits(tmp_path, 7)
    else:
        assert read_limits(tmp_path, 7) == Limits(5, frozenset(ends), 7)
