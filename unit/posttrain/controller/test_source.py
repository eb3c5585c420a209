"""Rollouts of a Gym agent: streamed as they come, and failures of either kind told apart."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from posttrain.controller.failures import GroupDataError, GroupError, GroupInfrastructureError
from posttrain.controller.ledger import Ledger, Limits
from posttrain.controller.source import AnswerReader, GymSource
from posttrain.controller.words import Finished, Prompt
from posttrain.data import Row
from posttrain.errors import WorkerError
from posttrain.rollout.collect import Agent
from unit.posttrain.controller.agent import rows

if TYPE_CHECKING:
    from unit.posttrain.controller.agent import Gym

DEADLINE_S = 0.5


def source(gym: Gym) -> GymSource:
    agent = Agent(gym.url, deadline_s=DEADLINE_S, silent=lambda: ["generation-1"])
    return GymSource(agent, AnswerReader())


def run(gym: Gym, row: Row | None = None) -> list[Finished]:
    ledger = Ledger(Limits(3, 1, 3, None, 0, 1))
    group = ledger.reserve(Prompt(0, row or rows()[2], "7/train/1"))

    async def collect() -> list[Finished]:
        async with aclosing(source(gym).run(group)) as rollouts:
            return [finished async for finished in rollouts]

    return asyncio.run(collect())


def test_a_group_is_all_its_rollouts_with_seeds_of_their_own(gym: Gym) -> None:
    finished = run(gym)
    assert sorted(it.rollout for it in finished) == [0, 1, 2]
    samples = [it.sample for it in finished]
    assert all(sample is not None and sample.row == 2 for sample in samples)
    assert len({sample.completion_ids for sample in samples if sample}) == 3
    again = {it.rollout: it.sample for it in run(gym)}
    assert again == {it.rollout: it.sample for it in finished}


FAULTS: list[tuple[Any, type[GroupError], str]] = [
    (lambda _: web.Response(status=500, text="engine died"), GroupInfrastructureError, "500"),
    (lambda _: web.Response(text="no JSON"), GroupInfrastructureError, "answered 200: no JSON"),
    (
        lambda _: web.json_response({"reward": 1.0, "response": {"output": []}}),
        GroupDataError,
        "",
    ),
    (lambda _: web.json_response({"reward": None, "response": {}}), GroupDataError, "reward None"),
    (
        lambda _: web.json_response(
            {"reward": 0.0, "mask_sample": True, "failure_reason": "judge"}
        ),
        GroupDataError,
        "the environment masked the sample: judge",
    ),
]


@pytest.mark.parametrize(
    ("fault", "kind", "words"), FAULTS, ids=["status", "text", "tokens", "reward", "masked"]
)
def test_a_missing_answer_is_infrastructure_and_a_wrong_one_is_data(
    gym: Gym, fault: Any, kind: type[GroupError], words: str
) -> None:
    gym.faults.append(fault)
    with pytest.raises(kind) as caught:
        run(gym)
    assert caught.value.asked.startswith("group p000000-0 (row 2, attempt 1): row 2: a ")
    assert words in caught.value.found


def test_an_agent_that_is_not_there_is_infrastructure(gym: Gym) -> None:
    gym.url = "http://127.0.0.1:9"
    with pytest.raises(GroupInfrastructureError, match="no answer from http"):
        run(gym)


def test_a_late_answer_names_who_is_silent(gym: Gym) -> None:
    gym.late_s = 60
    with pytest.raises(GroupInfrastructureError, match="nor does generation-1 answer"):
        run(gym)


def test_a_row_that_cannot_be_sent_is_data(gym: Gym) -> None:
    good = rows()[0]
    params = {**good.raw["responses_create_params"], "metadata": {"extra_body": "["}}
    with pytest.raises(GroupDataError, match=r"metadata\.extra_body"):
        run(gym, Row(0, {**good.raw, "responses_create_params": params}))
    assert gym.requests == 0


def test_a_group_that_is_given_up_ends_its_calls(gym: Gym) -> None:
    gym.late_s = 60
    group = Ledger(Limits(3, 1, 3, None, 0, 1)).reserve(Prompt(0, rows()[2], "seed"))

    async def give_up() -> None:
        async def first() -> None:
            async with aclosing(source(gym).run(group)) as rollouts:
                await anext(rollouts)

        task = asyncio.create_task(first())
        assert await asyncio.to_thread(gym.third.wait, 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(give_up())


def test_validation_rolls_each_row_out_once_in_order(gym: Gym) -> None:
    samples = asyncio.run(source(gym).validate(rows(), "7/validation"))
    assert [sample.row for sample in samples] == [0, 1, 2, 3, 4]
    gym.faults.append(lambda _: web.Response(status=500))
    with pytest.raises(WorkerError):
        asyncio.run(source(gym).validate(rows(), "7/validation"))
