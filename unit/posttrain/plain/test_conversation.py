"""Laws of a conversation's tokens: what continues is whole, and a break is where it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.errors import WorkerError
from posttrain.rollout.conversation import Break, breaks, to_conversation, to_turns_sample
from posttrain.rollout.convert import to_sample
from posttrain.rollout.turn import Turn

LAW = settings(deadline=None)
tokens = st.lists(st.integers(0, 300), min_size=1, max_size=8).map(tuple)


def turn(prompt: tuple[int, ...], completion: tuple[int, ...]) -> Turn:
    return Turn(prompt, completion, (-0.1,) * len(completion))


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Turns of which each prompt is all that went before and something more."""
    turns = [turn(draw(tokens), draw(tokens))]
    for _ in range(draw(st.integers(0, 4))):
        turns.append(turn(turns[-1].prompt_ids + turns[-1].completion_ids + draw(tokens), (1,)))
    return turns


@LAW
@given(conversations())
def test_turns_that_continue_each_other_have_no_break(turns: list[Turn]) -> None:
    assert breaks(turns) == []


@LAW
@given(conversations(), st.data())
def test_a_changed_token_of_a_prompt_is_found_at_its_turn_and_position(
    turns: list[Turn], data: st.DataObject
) -> None:
    before = turns[-1]
    wanted = before.prompt_ids + before.completion_ids
    place = data.draw(st.integers(0, len(wanted) - 1))
    found = data.draw(st.integers(0, 300).filter(lambda token: token != wanted[place]))
    changed = (*wanted[:place], found, *wanted[place + 1 :])
    number = len(turns) + 1
    assert breaks([*turns, turn(changed, (1,))]) == [Break(number, place, wanted[place], found)]


@LAW
@given(conversations(), st.data())
def test_a_prompt_that_ends_too_early_is_a_break_where_it_ends(
    turns: list[Turn], data: st.DataObject
) -> None:
    before = turns[-1]
    wanted = before.prompt_ids + before.completion_ids
    length = data.draw(st.integers(1, len(wanted) - 1))
    (found,) = breaks([*turns, turn(wanted[:length], (1,))])
    assert found == Break(len(turns) + 1, length, wanted[length], None)
    assert str(found) == (
        f"turn {len(turns) + 1}: its prompt has nothing at position {length}, where turn"
        f" {len(turns)} has token {wanted[length]}"
    )


def test_each_turn_is_compared_with_the_one_before() -> None:
    turns = [turn((1, 2), (3,)), turn((1, 2, 9, 4), (5,)), turn((1, 2, 9, 4, 5, 6), (7,))]
    assert breaks(turns) == [Break(2, 2, 3, 9)]


def item(ids: list[int]) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": f"{ids}"}],
        "prompt_token_ids": [7],
        "generation_token_ids": ids,
        "generation_log_probs": [-0.5] * len(ids),
    }


def answer(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    response = {"status": "completed", "incomplete_details": None, "output": list(items)}
    return {"reward": 0.5, "response": response, **more}


def test_turns_come_in_order_without_what_others_said() -> None:
    follow_up = {"role": "user", "content": "And then?", "type": "message"}
    conversation = to_conversation(3, answer(item([1]), follow_up, item([2, 3]), terminated=True))
    assert [one.completion_ids for one in conversation.turns] == [(1,), (2, 3)]
    assert [one.text for one in conversation.turns] == ["[1]", "[2, 3]"]
    assert (conversation.row, conversation.reward, conversation.truncated) == (3, 0.5, False)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (answer(), "no output item with token ids"),
        (answer(item([1]), terminated=False), "the agent gave up after 1 turns"),
        (answer(item([1]), item([])), "generation_token_ids is empty"),
        (answer(item([1]), mask_sample=True), "masked the sample"),
        ({"response": answer(item([1]))["response"]}, "no reward at all"),
    ],
)
def test_an_answer_that_is_no_conversation_is_refused(said: dict[str, Any], found: str) -> None:
    with pytest.raises(WorkerError, match=r"^row 3: ") as error:
        to_conversation(3, said)
    assert found in error.value.found


def said(*turns: Turn, **more: Any) -> dict[str, Any]:
    items = [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": f"{one.completion_ids}"}],
            "prompt_token_ids": list(one.prompt_ids),
            "generation_token_ids": list(one.completion_ids),
            "generation_log_probs": list(one.logprobs),
        }
        for one in turns
    ]
    return answer(*items, **more)


@LAW
@given(conversations())
def test_turns_that_continue_each_other_are_one_sequence(turns: list[Turn]) -> None:
    sample = to_turns_sample(3, said(*turns))
    assert sample.token_ids == turns[-1].prompt_ids + turns[-1].completion_ids
    assert [sample.token_ids[start:end] for start, end in sample.spans] == [
        one.completion_ids for one in turns
    ]
    assert sample.logprobs == tuple(logprob for one in turns for logprob in one.logprobs)
    assert (sample.row, sample.reward, sample.truncated) == (3, 0.5, False)
    assert sample.text == "".join(str(one.completion_ids) for one in turns)


def test_one_turn_is_the_same_sample_either_way() -> None:
    one = said(turn((7, 8), (1, 2)))
    assert to_turns_sample(3, one) == to_sample(3, one)


def test_turns_that_do_not_continue_each_other_are_no_sample() -> None:
    with pytest.raises(WorkerError, match="turn 2: its prompt has token 9 at position 1"):
        to_turns_sample(3, said(turn((7, 8), (1,)), turn((7, 9, 1, 5), (2,))))
