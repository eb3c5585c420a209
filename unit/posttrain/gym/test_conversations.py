"""Rollouts of several turns through Gym's own agent and environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.data import Row
from posttrain.environment.conversations import CONVERSATION_AGENT, MAX_TURNS
from posttrain.errors import WorkerError
from posttrain.rollout.collect import Agent, collect_as
from posttrain.rollout.conversation import Break, breaks, to_conversation

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.environment.servers import GymServers

FAR_S = 300.0
USER, ASSISTANT, END = 259, 260, 257


@pytest.fixture
def talk(everything: GymServers, rows: list[Row]) -> Callable[..., list[Any]]:
    """Roll out row 0 with follow-up questions that the recorded engine knows."""
    seconds: list[float] = []
    agent = Agent(
        everything.url(CONVERSATION_AGENT), CONVERSATION_AGENT, deadline_s=FAR_S, concurrency=1
    )

    def run(*follow_ups: str, expected: str = "\\boxed{7}") -> list[Any]:
        raw = {
            **rows[0].raw,
            "agent_ref": {"type": "responses_api_agents", "name": CONVERSATION_AGENT},
            "follow_ups": list(follow_ups),
            "expected_answer": expected,
        }
        found = collect_as(to_conversation, replace(agent, took=seconds.append), [Row(0, raw)])
        assert len(seconds) == 1
        assert seconds.pop() > 0
        return found

    return run


def question(rows: list[Row], index: int) -> str:
    content: str = rows[index].raw["responses_create_params"]["input"][0]["content"]
    return content


def test_turns_come_with_the_engines_own_tokens_and_the_last_one_is_judged(
    talk: Callable[..., list[Any]], engine: Any, rows: list[Row]
) -> None:
    said: list[dict[str, Any]] = []

    def remember(response: dict[str, Any]) -> None:
        """As an engine that has the conversation so far in its prompt."""
        if said:
            before = said[-1]["prompt_token_ids"] + said[-1]["choices"][0]["token_ids"]
            response["prompt_token_ids"] = [*before, USER, 1, END, ASSISTANT]
        said.append(response)

    engine.change = remember
    (conversation,) = talk(question(rows, 1), question(rows, 0), question(rows, 1))
    assert [turn.text[:5] for turn in conversation.turns] == ["2 + 2", "3 + 5", "2 + 2", "3 + 5"]
    assert conversation.reward == 1.0
    assert not conversation.truncated
    for turn, response in zip(conversation.turns, said, strict=True):
        choice = response["choices"][0]
        assert turn.prompt_ids == tuple(response["prompt_token_ids"])
        assert turn.completion_ids == tuple(choice["token_ids"])
        assert turn.logprobs == tuple(token["logprob"] for token in choice["logprobs"]["content"])
    assert breaks(conversation.turns) == []
    roles = [[message["role"] for message in request["messages"]] for request in engine.requests]
    assert roles[-1] == ["user", "assistant"] * 3 + ["user"]


def test_an_engine_that_forgets_the_conversation_is_found_by_the_first_token(
    talk: Callable[..., list[Any]], rows: list[Row]
) -> None:
    (conversation,) = talk(question(rows, 1), expected="never said")
    assert conversation.reward == 0.0
    first, second = (turn.prompt_ids for turn in conversation.turns)
    position = next(place for place, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    assert breaks(conversation.turns) == [Break(2, position, first[position], second[position])]


def test_a_conversation_that_the_agent_gives_up_is_no_rollout(
    talk: Callable[..., list[Any]], rows: list[Row]
) -> None:
    with pytest.raises(WorkerError) as error:
        talk(*[question(rows, 1)] * MAX_TURNS)
    given_up = f"the agent gave up after {MAX_TURNS} turns, before the environment's end"
    assert error.value.found == given_up
