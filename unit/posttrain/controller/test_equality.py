"""With nothing in flight beside training, both controllers give the same rows and metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.checkpoint.keeper import Checkpoints
from posttrain.checkpoint.resume import Start
from posttrain.checkpoint.store import CheckpointStore
from posttrain.config import load_recipe
from posttrain.controller.learner import Learner
from posttrain.controller.single import SingleController
from posttrain.controller.source import AnswerReader, GymSource
from posttrain.controller.synchronous import Controller
from posttrain.controller.watchdog import Watchdog
from posttrain.dataplane import MemoryPlane
from posttrain.dataset import Prompts
from posttrain.metrics.writer import MetricsWriter
from posttrain.rollout.collect import Agent
from posttrain.stages import Stages
from unit.posttrain.controller.agent import rows
from unit.posttrain.controller.conftest import RECIPE, make_recipe
from unit.posttrain.controller.peers import Generation, Policy

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from posttrain.dataplane import DataPlane
    from unit.posttrain.controller.agent import Gym

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
