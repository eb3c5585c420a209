"""Rollouts through real Gym servers, from a row to a sample or to an error that names the row."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from posttrain.environment.configure import UNSHAPED
from posttrain.errors import DataError, WorkerError
from posttrain.rollout.collect import Agent, collect
from posttrain.rollout.convert import accuracy

if TYPE_CHECKING:
    from posttrain.data import Row
    from posttrain.environment.servers import GymServers

RIGHT, WRONG = "2 + 2 = \\boxed{4}", "3 + 5 = \\boxed{7}"
END_OF_ANSWER = 257


def spoken(response: dict[str, Any]) -> str:
    text: str = response["choices"][0]["message"]["content"]
    return text


def answer_with(text: str) -> Any:
    def change(response: dict[str, Any]) -> None:
        response["choices"][0]["message"]["content"] = text

    return change


def test_one_answer_is_accepted_and_one_rejected_with_the_engines_own_tokens(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    seen: list[dict[str, Any]] = []
    engine.change = seen.append
    samples = collect(replace(agent, concurrency=1), rows)
    assert [(s.row, s.reward, s.text, s.truncated) for s in samples] == [
        (0, 1.0, RIGHT, False),
        (1, 0.0, WRONG, False),
    ]
    for sample, response in zip(samples, seen, strict=True):
        choice = response["choices"][0]
        assert sample.prompt_ids == tuple(response["prompt_token_ids"])
        assert sample.completion_ids == tuple(choice["token_ids"])
        assert sample.completion_ids[-1] == END_OF_ANSWER
        assert sample.logprobs == tuple(token["logprob"] for token in choice["logprobs"]["content"])
    assert accuracy(samples) == 0.5


def test_the_engine_is_asked_for_greedy_tokens_whatever_the_row_says(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    rows[0].raw["responses_create_params"] |= {"temperature": 1.0, "top_logprobs": 7}
    collect(agent, rows[:1])
    (request,) = engine.requests
    assert request["temperature"] == 0.0
    assert request["model"] == "tiny-llama"
    assert request["logprobs"] is True
    assert request["top_logprobs"] == 0
    assert request["return_token_ids"] is True


def test_every_rollout_samples_with_a_seed_of_its_own_and_the_same_one_again(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    rows[0].raw["responses_create_params"]["metadata"] = {"extra_body": '{"priority": 2}'}
    seen = []
    for seed in ("0/train/1", "0/train/1", "0/train/2"):
        engine.reset()
        collect(replace(agent, concurrency=1), rows, samples_per_row=3, seed=seed)
        seen.append([request["seed"] for request in engine.requests])
        assert [request.get("priority") for request in engine.requests] == [2] * 3 + [None] * 3
    first, again, other = seen
    assert first == again
    assert len({*first, *other}) == 12
    assert all(0 <= seed < 2**32 for seed in (*first, *other))


@pytest.mark.parametrize("text", ["{", "[]", 7])
def test_a_row_whose_extra_fields_cannot_be_read_is_refused(
    agent: Agent, rows: list[Row], text: Any
) -> None:
    rows[1].raw["responses_create_params"]["metadata"] = {"extra_body": text}
    with pytest.raises(DataError, match=r"row 1: metadata\.extra_body"):
        collect(agent, rows)


def test_a_row_cannot_shape_the_distribution_whose_log_probs_are_recomputed(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    rows[0].raw["responses_create_params"] |= {
        "top_p": 0.5,
        "metadata": {
            "extra_body": '{"top_k": 1, "min_p": 0.3, "repetition_penalty": 2.0, "min_tokens": 2,'
            ' "logit_bias": {"5": 2.0}, "bad_words": ["four"], "allowed_token_ids": [1, 2],'
            ' "structured_outputs": {"choice": ["4"]}, "use_beam_search": true}'
        },
    }
    collect(agent, rows[:1])
    (request,) = engine.requests
    assert {name: request[name] for name in UNSHAPED} == UNSHAPED
    assert UNSHAPED == {
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
        "logit_bias": None,
        "bad_words": [],
        "allowed_token_ids": None,
        "structured_outputs": None,
        "response_format": None,
        "thinking_token_budget": None,
        "use_beam_search": False,
    }


def test_an_answer_that_ended_at_its_length_limit_is_truncated(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    rows[0].raw["responses_create_params"]["max_output_tokens"] = 5
    (sample,) = collect(agent, rows[:1])
    assert engine.requests[0]["max_tokens"] == 5
    assert sample.truncated
    assert len(sample.completion_ids) == 5
    assert sample.reward == 0.0


def test_samples_come_in_the_order_of_the_rows_however_fast_each_is(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    others_are_done = threading.Event()

    async def wait() -> None:
        await asyncio.to_thread(others_are_done.wait, 60)

    def hold_the_first(response: dict[str, Any]) -> Any:
        return wait() if RIGHT in spoken(response) else None

    def all_asked() -> None:
        if len(engine.requests) == 6:
            others_are_done.set()

    engine.change = hold_the_first
    samples = collect(replace(agent, watch=all_asked), rows, samples_per_row=3)
    assert [sample.row for sample in samples] == [0, 0, 0, 1, 1, 1]
    assert [sample.reward for sample in samples] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def test_no_more_rollouts_are_under_way_than_allowed(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    under_way: list[int] = []
    most = 0

    async def count() -> None:
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        await asyncio.sleep(0.05)
        under_way.pop()

    engine.change = lambda _: count()
    assert len(collect(replace(agent, concurrency=2), rows, samples_per_row=3)) == 6
    assert most == 2


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("\\boxed{4}", 1.0),
        ("\\boxed{04}", 1.0),
        ("\\boxed{\\frac{8}{2}}", 1.0),
        ("\\boxed{5} no: \\boxed{4}", 0.0),
        ("\\boxed{5}", 0.0),
        ("4", 0.0),
        ("\\boxed{4", 0.0),
        ("\\boxed{}", 0.0),
        ("boxed{4}", 0.0),
        ("\\boxed{\\frac{8}{}", 0.0),
        ("\\boxed{four}", 0.0),
        ("\\boxed{4}" * 500, 1.0),
        ("\x00\\boxed{\ufffd\u202e}", 0.0),
    ],
)
def test_the_verifier_judges_odd_answers(
    agent: Agent, engine: Any, rows: list[Row], text: str, reward: float
) -> None:
    engine.change = answer_with(text)
    (sample,) = collect(agent, rows[:1])
    assert sample.text == text
    assert sample.reward == reward


def without_logprobs(response: dict[str, Any]) -> None:
    response["choices"][0]["logprobs"] = None


def without_prompt_ids(response: dict[str, Any]) -> None:
    del response["prompt_token_ids"]


def without_completion_ids(response: dict[str, Any]) -> None:
    del response["choices"][0]["token_ids"]


def with_other_ids(response: dict[str, Any]) -> None:
    response["choices"][0]["token_ids"][3] += 1


def with_a_token_too_few(response: dict[str, Any]) -> None:
    response["choices"][0]["logprobs"]["content"].pop()


def without_any_token(response: dict[str, Any]) -> None:
    response["choices"][0]["token_ids"] = []
    response["choices"][0]["logprobs"]["content"] = []


def with_minus_infinity(response: dict[str, Any]) -> None:
    response["choices"][0]["logprobs"]["content"][2]["logprob"] = -9999.0


def with_nan(response: dict[str, Any]) -> None:
    # Python's JSON writes and reads the word NaN, as does a careless server.
    response["choices"][0]["logprobs"]["content"][2]["logprob"] = float("nan")


def filtered(response: dict[str, Any]) -> None:
    response["choices"][0]["finish_reason"] = "content_filter"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_logprobs, "had none"),
        (without_prompt_ids, "missing: prompt_token_ids"),
        (without_completion_ids, "missing: choice.token_ids"),
        (with_other_ids, "disagree"),
        (with_a_token_too_few, "disagree"),
        (without_any_token, "generation_token_ids is empty"),
        (with_minus_infinity, "generation_log_probs[2] is -9999.0"),
        (with_nan, "500"),
        (filtered, "content_filter"),
    ],
)
def test_an_answer_that_cannot_be_trained_on_is_an_error_and_never_a_reward(
    agent: Agent, engine: Any, rows: list[Row], change: Any, said: str
) -> None:
    engine.change = lambda response: change(response) if WRONG in spoken(response) else None
    with pytest.raises(WorkerError) as error:
        collect(agent, rows)
    assert error.value.asked.startswith("row 1: ")
    assert said in str(error.value)


def test_a_prompt_longer_than_the_engine_takes_is_an_error_and_not_an_empty_answer(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    refusal = {"error": {"message": "This model's maximum context length is 512 tokens."}}
    engine.change = lambda _: web.json_response(refusal, status=400)
    with pytest.raises(WorkerError, match=r"row 0: .*\n.*maximum context length is 512"):
        collect(agent, rows[:1])


def test_a_row_without_an_expected_answer_is_refused_by_gym_itself(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    del rows[1].raw["expected_answer"]
    with pytest.raises(WorkerError, match=r"row 1: .*\n.*expected_answer.*Field required"):
        collect(agent, rows)
    assert engine.requests


def test_a_row_for_another_agent_is_refused_before_anything_is_sent(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    rows[1].raw["agent_ref"]["name"] = "coding_agent"
    with pytest.raises(DataError, match=r"row 1: .*math_simple_agent.*\n.*coding_agent"):
        collect(agent, rows)
    assert engine.requests == []


def test_an_engine_that_never_answers_costs_the_deadline_and_no_more(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    engine.change = lambda _: asyncio.sleep(3600)
    with pytest.raises(WorkerError) as error:
        collect(replace(agent, deadline_s=2), rows[1:])
    assert error.value.asked == "row 1: a rollout"
    assert error.value.found == f"no answer from {agent.url}/run within 2 s"
    engine.reset()
    assert len(collect(agent, rows)) == 2, "the servers are of use afterwards"


def test_whoever_answers_nothing_is_named_when_the_deadline_has_passed(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    engine.change = lambda _: asyncio.sleep(3600)
    with pytest.raises(WorkerError, match=r"within 2 s; nor does left or right answer a health"):
        collect(replace(agent, deadline_s=2, silent=lambda: ["left", "right"]), rows)


def test_the_first_row_is_named_when_several_fail(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    engine.change = without_logprobs
    with pytest.raises(WorkerError, match="row 0: "):
        collect(replace(agent, concurrency=1), rows)


def test_an_engine_that_dies_in_generation_ends_the_rollout_at_its_deadline(
    own_gym: GymServers, own_engine: Any, rows: list[Row]
) -> None:
    def die_when_asked() -> None:
        own_engine.asked.wait(60)
        own_engine.die()

    own_engine.change = lambda _: asyncio.sleep(3600)
    killer = threading.Thread(target=die_when_asked)
    killer.start()
    with pytest.raises(WorkerError, match=r"row 0: .*\n.*no answer from .* within 5 s"):
        collect(Agent(own_gym.agent_url, deadline_s=5), rows[:1])
    killer.join()
    own_gym.check()


def test_a_watched_process_that_dies_ends_the_rollout_long_before_its_deadline(
    agent: Agent, engine: Any, rows: list[Row]
) -> None:
    engine.change = lambda _: asyncio.sleep(3600)

    def watch() -> None:
        if engine.asked.is_set():
            raise WorkerError("engine 1 running", "killed by SIGKILL", "read its log")

    with pytest.raises(WorkerError, match="engine 1 running"):
        collect(replace(agent, watch=watch), rows)


def test_gym_servers_that_die_in_a_rollout_are_named_as_the_cause(
    own_gym: GymServers, own_engine: Any, rows: list[Row]
) -> None:
    own_engine.change = lambda _: asyncio.sleep(3600)
    pid = own_gym.pid
    killer = threading.Thread(
        target=lambda: (own_engine.asked.wait(), os.kill(pid, signal.SIGKILL))
    )
    killer.start()
    with pytest.raises(WorkerError, match=r"Gym's servers .* running\n.*killed by SIGKILL"):
        collect(Agent(own_gym.agent_url, deadline_s=3000, watch=own_gym.check), rows)
    killer.join()
    with pytest.raises(WorkerError, match=r"row 0: .*\n.*no answer from .*Connect"):
        collect(Agent(own_gym.agent_url, deadline_s=3000), rows)
