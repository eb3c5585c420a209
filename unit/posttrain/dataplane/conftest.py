"""Both planes under one set of tests: one plane of each kind, a partition for each test."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import ray
from hypothesis import HealthCheck, settings

from posttrain.dataplane import DataPlane, MemoryPlane

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

ROOT = Path(__file__).resolve().parents[3]
FIELDS = ("tokens", "logprobs", "number", "share", "text", "blob")
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """A Ray cluster; its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH") or str(ROOT))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=80 << 20,
            logging_level="ERROR",
            log_to_driver=False,
        )
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()


@pytest.fixture(scope="session")
def queue(cluster: str) -> Iterator[TransferQueuePlane]:  # noqa: ARG001 - it must run
    from posttrain.dataplane.transfer_queue import TransferQueuePlane

    plane = TransferQueuePlane.start(deadline_s=60)
    yield plane
    plane.close()


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
