"""With nothing in flight beside training, both controllers give the same rows and metrics."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from posttrain.checkpoint.keeper import Checkpoints
from posttrain.checkpoint.resume import Start
from posttrain.checkpoint.store import CheckpointStore
from posttrain.config import load_recipe
from posttrain.controller.learner import Learner
from posttrain.controller.single import SingleController
from posttrain.controller.source import AnswerReader, GymSource
from posttrain.controller.synchronous import Controller
from posttrain.controller.watchdog import Watchdog
from posttrain.data import Row
from posttrain.dataplane import MemoryPlane
from posttrain.dataset import Prompts
from posttrain.metrics.writer import MetricsWriter
from posttrain.rollout.collect import Agent
from posttrain.stages import Stages
from unit.posttrain.controller.conftest import RECIPE, make_recipe
from unit.posttrain.controller.peers import Generation, Policy, Weights, completion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

    from posttrain.dataplane import DataPlane

ROWS = 5
# Metrics that differ by their nature, or that only the single controller has.
OWN = ("timing/", "controller/", "dataplane/")
SHARED = (
    "run.steps=4",
    "run.seed=11",
    "data.prompts_per_step=2",
    "data.validate_every=2",
    "rollouts.per_prompt=3",
    "rollouts.concurrency=6",
    "advantages.kind=grpo",
)


@dataclass
class Gym:
    """An agent over HTTP whose answer is a function of the request and the weights."""

    weights: Weights
    url: str = ""
    requests: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests += 1
        extra = json.loads(body["responses_create_params"]["metadata"]["extra_body"])
        ids, logprobs = completion(str(extra["seed"]), self.weights.served, 6)
        item = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": f"{ids}"}],
            "prompt_token_ids": [9, body["_ng_task_index"]],
            "generation_token_ids": ids,
            "generation_log_probs": logprobs,
        }
        # The order in which answers come is not that of the requests.
        await asyncio.sleep(0.001 * (ids[0] % 5))
        response = {"status": "completed", "output": [item]}
        return web.json_response({"reward": float(ids[0] % 2), "response": response})


@pytest.fixture
def gym() -> Iterator[Gym]:
    served = Gym(Weights())
    loop = asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/run", served.answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    runner = loop.run_until_complete(start())
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield served
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def rows() -> list[Row]:
    agent = {"name": "math_simple_agent"}
    params = {"input": [{"role": "user", "content": "?"}]}
    raw = {"agent_ref": agent, "responses_create_params": params}
    return [Row(index, raw) for index in range(ROWS)]


def peers(gym: Gym) -> tuple[Any, ...]:
    gym.weights.trained = gym.weights.served = 0
    return Policy(gym.weights), Generation(gym.weights)


def synchronous(gym: Gym, folder: Path, log: TextIO) -> None:
    given = ["run.dir=x", *(f"interpreters.{kind}=x" for kind in ("policy", "generation", "gym"))]
    recipe = load_recipe(RECIPE, [*given, *SHARED]).recipe
    controller = Controller(
        learner=Learner(recipe, *peers(gym), Stages(log)),
        agent=Agent(gym.url, concurrency=6),
        prompts=Prompts(rows(), 2, shuffle=True, seed=11),
        validation_rows=rows(),
        checkpoints=Checkpoints(CheckpointStore(folder / "checkpoints"), Start()),
    )
    with MetricsWriter(folder, events=False) as writer:
        controller.run(writer, folder / "samples.jsonl")


def single(gym: Gym, folder: Path, log: TextIO, plane: DataPlane, *more: str) -> None:
    recipe = make_recipe(*SHARED, *more)
    controller = SingleController(
        recipe=recipe,
        learner=Learner(recipe, *peers(gym), Stages(log)),
        source=GymSource(Agent(gym.url, concurrency=6), AnswerReader()),
        plane=plane,
        prompts=Prompts(rows(), 2, shuffle=True, seed=11),
        validation_rows=rows(),
        watchdog=Watchdog(30.0, log),
    )
    with MetricsWriter(folder, events=False) as writer:
        controller.run(writer, folder / "samples.jsonl")


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def without_times(folder: Path) -> list[dict[str, Any]]:
    return [
        {key: it for key, it in line.items() if not key.startswith(OWN)}
        for line in lines(folder, "metrics.jsonl")
    ]


@pytest.mark.parametrize("groups", ["1", "null"])
def test_without_a_window_it_is_the_synchronous_controller(
    gym: Gym, tmp_path: Path, log: TextIO, groups: str
) -> None:
    first, second = tmp_path / "synchronous", tmp_path / "single"
    synchronous(gym, first, log)
    asked = gym.requests
    single(gym, second, log, MemoryPlane(), f"controller.groups_in_flight={groups}")

    assert gym.requests == 2 * asked
    assert (second / "samples.jsonl").read_bytes() == (first / "samples.jsonl").read_bytes()
    assert len(lines(second, "samples.jsonl")) == 4 * 2 * 3
    metrics = without_times(second)
    assert metrics == without_times(first)
    assert [line["train/weight_version"] for line in metrics] == [0, 1, 2, 3]
    assert ["validation/accuracy" in line for line in metrics] == [True, True, False, True]
    for line in lines(second, "metrics.jsonl"):
        assert line["controller/groups_reserved"] == line["controller/groups_trained"] == 2
        assert line["controller/dropped_prompts"] == line["controller/staleness_max"] == 0


def test_with_a_window_the_same_prompts_are_trained(gym: Gym, tmp_path: Path, log: TextIO) -> None:
    synchronous(gym, tmp_path / "synchronous", log)
    single(gym, tmp_path / "single", log, MemoryPlane(), "controller.staleness=2")
    trained = [
        sorted(line["row"] for line in lines(tmp_path / name, "samples.jsonl"))
        for name in ("synchronous", "single")
    ]
    assert trained[0] == trained[1]
