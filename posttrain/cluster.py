"""A Ray cluster of the run's own: no dashboard, own folder, gone with the run."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What passes through Ray's object store is token ids and numbers; weights go another way.
OBJECT_STORE_BYTES = 96 << 20
SYSTEM_CONFIG = {
    # Each actor names its own interpreter: a worker of the driver's would stay idle.
    "prestart_worker_first_driver": False,
    # Ray's own 15 lets Gym's servers and the driver starve engines, ranks and the data plane.
    "worker_niceness": 0,
}


@contextmanager
def cluster(
    *,
    cpus: int,
    accelerators: int,
    bundles: Sequence[dict[str, float]],
    deadline_s: float,
    temp_dir: str | None = None,
) -> Iterator[list[Any]]:
    """Start a one-node Ray cluster and reserve its devices; end it on leaving.

    Args:
        cpus: logical CPUs to offer.
        accelerators: GPUs to offer.
        bundles: resources of each placement bundle, e.g. ``{"CPU": 1}``.
        deadline_s: seconds until the reservation must be granted.
        temp_dir: Ray's folder, which stays; its path can have about 45 characters. By default a
            fresh one below ``RAY_TMPDIR`` or the system's, which goes with the cluster.

    Yields:
        One scheduling strategy a bundle, for the ``scheduling_strategy`` option of an actor.

    Raises:
        WorkerError: Ray does not start there, or the reservation was not granted in time.
    """
    import ray
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    with _folder(temp_dir) as folder:
        try:
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=accelerators,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                configure_logging=True,
                logging_level=logging.WARNING,
                log_to_driver=True,
                namespace="posttrain",
                _temp_dir=folder,
                _node_ip_address="127.0.0.1",
                _system_config=SYSTEM_CONFIG,
            )
        except Exception as error:  # Ray raises plain ones, as when its node is late
            raise WorkerError(
                f"a Ray cluster in the folder {folder}",
                f"{type(error).__name__}: {error}",
                "give cluster.temp_dir a short path of a folder that can be written to; a node that"
                " was late needs a machine that is less busy",
            ) from error
        try:
            group = placement_group(list(bundles), strategy="PACK")
            if not group.wait(deadline_s):
                raise WorkerError(
                    f"placement bundles {list(bundles)}",
                    f"not granted within {deadline_s:g} s; the cluster has"
                    f" {ray.cluster_resources()}",
                    "ask for fewer devices, or raise cluster.cpus or cluster.accelerators",
                )
            yield [
                PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
                for index in range(len(bundles))
            ]
        finally:
            ray.shutdown()


@contextmanager
def _folder(asked: str | None) -> Iterator[str]:
    if asked is not None:
        yield str(Path(asked).resolve())
        return
    # Ray's processes may still write their last words while the folder goes.
    with tempfile.TemporaryDirectory(
        prefix="r", dir=os.environ.get("RAY_TMPDIR") or None, ignore_cleanup_errors=True
    ) as folder:
        yield folder


def prepare_environment() -> None:
    """Set what Ray reads when it is imported, for this process and all that it starts.

    To be called before anything imports Ray.
    """
    if "ray" in sys.modules:
        msg = "Ray was imported before its environment was prepared"
        raise RuntimeError(msg)
    os.environ |= {
        # A secret of the run's own; Ray's default is a file in the home folder.
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        # Workers' lines come to the log as they are and when they are written.
        "RAY_COLOR_PREFIX": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
