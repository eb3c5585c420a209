"""A single controller over peers, and both data planes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from posttrain.config.load import load_schema
from posttrain.config.training import SingleRecipe
from posttrain.controller.learner import Learner
from posttrain.controller.rows import PARTITION
from posttrain.controller.single import SingleController
from posttrain.controller.watchdog import Watchdog
from posttrain.data import Row
from posttrain.dataplane import DataPlane, MemoryPlane
from posttrain.dataset import Prompts
from posttrain.metrics.table import find
from posttrain.stages import Stages
from unit.posttrain.controller.agent import Gym, serving
from unit.posttrain.controller.peers import Generation, Policy, Source, Weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

settings.register_profile(
    "controller",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("controller")

ROOT = Path(__file__).resolve().parents[3]
RECIPE = ROOT / "functional" / "recipes" / "gym_training.yaml"


def make_recipe(*overrides: str) -> SingleRecipe:
    given = ["run.dir=x", *(f"interpreters.{kind}=x" for kind in ("policy", "generation", "gym"))]
    return load_schema(SingleRecipe, RECIPE, [*given, *overrides], "single_controller").recipe


@dataclass
class Record:
    """Takes what a run would write, as strictly as the real one."""

    stages: Stages
    metrics: list[Mapping[str, Any]] = field(default_factory=list)
    samples: list[list[Mapping[str, Any]]] = field(default_factory=list)

    def write(
        self, step: int, metrics: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]
    ) -> None:
        assert step == len(self.metrics) + 1
        metrics = {**metrics, **self.stages.take_timings()}
        for name in metrics:
            find(name)
        self.metrics.append(metrics)
        self.samples.append(list(samples))

    def total(self, name: str) -> float:
        return sum(line[f"controller/{name}"] for line in self.metrics)


@dataclass
class Run:
    """One run of a single controller over peers."""

    controller: SingleController
    record: Record
    source: Source
    policy: Policy
    generation: Generation
    plane: DataPlane
    weights: Weights

    async def take_steps(self) -> None:
        record: Any = self.record
        await self.controller.take_steps(record)

    def left(self) -> set[str]:
        """Ids of the rows that are in the data plane."""
        ids = [row for group in self.source.reserved for row in group.ids]
        return {row for row, fields in self.plane.check(PARTITION, ids).items() if fields}


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextIO]:
    with (tmp_path_factory.mktemp("log") / "log").open("w+", encoding="utf-8") as stream:
        yield stream


@pytest.fixture(scope="session")
def make_run(log: TextIO) -> Callable[..., Run]:
    """Make a run by recipe overrides; ``rows`` is the size of its dataset."""

    def make(
        *overrides: str,
        rows: int = 2,
        plane: DataPlane | None = None,
        stall_s: float = 30.0,
        **source: Any,
    ) -> Run:
        recipe = make_recipe(*overrides)
        weights = Weights()
        policy, generation = Policy(weights), Generation(weights)
        stages = Stages(log)
        parts: Any = (policy, generation)
        own = Source(weights, **source)
        dataset = [Row(index, {}) for index in range(rows)]
        plane = MemoryPlane() if plane is None else plane
        controller = SingleController(
            recipe=recipe,
            learner=Learner(recipe, *parts, stages),
            source=own,
            plane=plane,
            prompts=Prompts(dataset, recipe.data.prompts_per_step, epochs=recipe.data.epochs),
            validation_rows=dataset,
            watchdog=Watchdog(stall_s, log),
        )
        return Run(controller, Record(stages), own, policy, generation, plane, weights)

    return make


@pytest.fixture(scope="session")
def recipe() -> Callable[..., SingleRecipe]:
    return make_recipe


@pytest.fixture(scope="session")
def queue() -> Iterator[DataPlane]:
    """A TransferQueue plane in a cluster of its own."""
    from posttrain.dataplane.transfer_queue import TransferQueuePlane
    from unit.posttrain.clusters import own_cluster

    with own_cluster():
        plane = TransferQueuePlane.start(deadline_s=60)
        yield plane
        plane.close()


@pytest.fixture
def gym() -> Iterator[Gym]:
    with serving() as served:
        yield served
