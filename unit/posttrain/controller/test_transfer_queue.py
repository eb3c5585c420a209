"""A run over a real TransferQueue plane, whose storage units must have served it."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.config import dataplane as recipe
from posttrain.dataplane.bounds import LONGEST_S, SHORTEST_S
from unit.posttrain.controller.peers import LATENESS, Fate

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.controller.words import Reservation
    from posttrain.dataplane import DataPlane
    from unit.posttrain.controller.conftest import Run

NUMBERS = count()


class Renamed:
    """A plane whose partitions are a test's own."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._suffix = f"-{next(NUMBERS)}"

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(self._plane, method)
        if method == "served":
            return call
        return lambda partition, *more, **named: call(partition + self._suffix, *more, **named)


@pytest.fixture
def plane(queue: DataPlane) -> Any:
    return Renamed(queue)


def mixed(group: Reservation, rollout: int) -> Fate:
    number, late = group.prompt.number, (group.prompt.number + rollout) * 7 % LATENESS
    if number == 2 and group.attempt == 0:
        return Fate(late, "infrastructure")
    if number == 4:
        return Fate(late, "data")
    return Fate(late, "placeholder" if number % 2 and rollout == 1 else "ok")


def test_a_recipe_takes_the_deadlines_that_the_plane_takes() -> None:
    assert (recipe.SHORTEST_S, recipe.LONGEST_S) == (SHORTEST_S, LONGEST_S)


def test_a_run_trains_whole_groups_and_leaves_nothing(
    make_run: Callable[..., Run], plane: Any, queue: DataPlane
) -> None:
    before = queue.served()
    run = make_run(
        "run.steps=5",
        "rollouts.per_prompt=3",
        "data.prompts_per_step=2",
        "controller.staleness=1",
        "controller.budgets.infrastructure=1",
        "controller.budgets.data=1",
        rows=3,
        plane=plane,
        fate=mixed,
    )
    asyncio.run(run.take_steps())

    assert [line["controller/groups_trained"] for line in run.record.metrics] == [2] * 5
    assert run.left() == set()
    recorded = [sample["text"] for step in run.record.samples for sample in step]
    assert len(set(recorded)) == len(recorded)
    placeholders = run.record.total("placeholders")
    assert len(recorded) == 5 * 2 * 3 - placeholders
    assert placeholders >= 4
    assert run.record.total("retries_infrastructure") == run.record.total("retries_data") == 1
    assert [line["dataplane/storage_units"] for line in run.record.metrics] == [2] * 5
    puts = [line["dataplane/1/puts"] for line in run.record.metrics]
    assert puts == sorted(puts)
    # Both units held rows of this run, and hold none now.
    after = queue.served()
    assert len(after) == 2
    for name, unit in after.items():
        assert unit.puts > before[name].puts
        assert unit.gets > before[name].gets
        assert unit.rows == before[name].rows


def test_what_comes_back_is_what_memory_gives(make_run: Callable[..., Run], plane: Any) -> None:
    overrides = ("run.steps=3", "rollouts.per_prompt=2", "data.prompts_per_step=2")
    runs = [make_run(*overrides), make_run(*overrides, plane=plane)]
    for run in runs:
        asyncio.run(run.take_steps())
    memory, queued = (run.record for run in runs)
    assert queued.samples == memory.samples
    timeless = [
        [
            {
                name: it
                for name, it in line.items()
                if not name.startswith(("timing/", "dataplane/"))
            }
            for line in record.metrics
        ]
        for record in (memory, queued)
    ]
    assert timeless[0] == timeless[1]
