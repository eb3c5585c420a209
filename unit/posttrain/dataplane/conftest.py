"""Both planes under one set of tests: one plane of each kind, a partition for each test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from posttrain.dataplane import DataPlane, MemoryPlane
from unit.posttrain.clusters import own_cluster
from unit.posttrain.dataplane import broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posttrain.dataplane.transfer_queue import TransferQueuePlane

# A slow machine is no finding. A test's partition is fresh for each example: see `fresh`.
settings.register_profile(
    "planes",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("planes")

FIELDS = ("tokens", "logprobs", "number", "share", "text", "blob")
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """A Ray cluster; its address."""
    with own_cluster() as address:
        yield address


@pytest.fixture(scope="session")
def queue(cluster: str) -> Iterator[TransferQueuePlane]:  # noqa: ARG001 - it must run
    from posttrain.dataplane.transfer_queue import TransferQueuePlane

    plane = TransferQueuePlane.start(deadline_s=60)
    yield plane
    plane.close()


@pytest.fixture
def own(cluster: str) -> Iterator[TransferQueuePlane]:  # noqa: ARG001 - it must run
    """A plane that a test may break, with a row in each of its two units."""
    from posttrain.dataplane.transfer_queue import TransferQueuePlane

    made = TransferQueuePlane.start(deadline_s=8)
    made.register("p", broken.FIELDS)
    made.put("p", broken.rows("a", "b"))
    yield made
    made.close()


@pytest.fixture(scope="session", params=["memory", "transfer_queue"])
def plane(request: pytest.FixtureRequest) -> DataPlane:
    if request.param == "memory":
        return MemoryPlane()
    found: DataPlane = request.getfixturevalue("queue")
    return found


@pytest.fixture
def fresh(plane: DataPlane) -> Callable[..., str]:
    """Register a partition under a name that no other has."""

    def register(fields: Sequence[str] = FIELDS, capacity: int | None = None) -> str:
        name = f"p{next(NUMBERS)}"
        plane.register(name, fields, capacity)
        return name

    return register


@pytest.fixture
def partition(fresh: Callable[..., str]) -> str:
    """A registered partition without a bound."""
    return fresh()
