"""A Ray cluster of the run's own: no dashboard, own folder, gone with the run."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What passes through Ray's object store is token ids and numbers; weights go another way.
OBJECT_STORE_BYTES = 96 << 20


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
        temp_dir: Ray's folder, whose path can have about 60 characters; by default Ray makes one
            below ``RAY_TMPDIR``.

    Yields:
        One scheduling strategy a bundle, for the ``scheduling_strategy`` option of an actor.

    Raises:
        WorkerError: the reservation was not granted in time.
    """
    import ray
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

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
        _temp_dir=temp_dir,
        _node_ip_address="127.0.0.1",
    )
    try:
        group = placement_group(list(bundles), strategy="PACK")
        if not group.wait(deadline_s):
            raise WorkerError(
                f"placement bundles {list(bundles)}",
                f"not granted within {deadline_s:g} s; the cluster has {ray.cluster_resources()}",
                "ask for fewer devices, or raise cluster.cpus or cluster.accelerators",
            )
        yield [
            PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
            for index in range(len(bundles))
        ]
    finally:
        ray.shutdown()
