"""A Ray cluster of a test's own, as several suites need one."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import ray

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
OBJECT_STORE_BYTES = 96 << 20


@contextmanager
def own_cluster(cpus: int = 1, **variables: str) -> Iterator[str]:
    """Start a cluster whose processes find first-party code; its address.

    Args:
        cpus: logical CPUs to offer.
        variables: of all its processes' environment, and of this one's meanwhile.
    """
    # Ray's sockets limit the length of the path, so pytest's own folder is too deep.
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH") or str(ROOT))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        for name, value in variables.items():
            patch.setenv(name, value)
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level="ERROR",
            log_to_driver=False,
            _temp_dir=folder,
            _node_ip_address="127.0.0.1",
        )
        try:
            yield ray.get_runtime_context().gcs_address
        finally:
            ray.shutdown()
