"""The stores that capture is measured with: a TransferQueue plane as in training, and files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging import open_store
from posttrain.capture.staging.plane import PlaneStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posttrain.capture.staging import Store
    from posttrain.dataplane.transfer_queue import TransferQueuePlane

ROOT = Path(__file__).resolve().parents[1]
Kind = Literal["plane", "files"]
# Long, for a machine that is measured at its limit.
DEADLINE_S = 120.0
_OBJECT_STORE_BYTES = 96 << 20


@dataclass(frozen=True)
class Opened:
    """A store as this process uses it.

    Attributes:
        store: itself.
        settings: with which another process opens it, or an engine in this one.
        plane: on which it is, unless it is files.
        cluster: the address of the plane's Ray cluster; empty for files.
    """

    store: Store
    settings: CaptureSettings
    plane: TransferQueuePlane | None = None
    cluster: str = ""

    def retire(self, keys: Sequence[str]) -> None:
        """Let go of what was staged."""
        self.store.retire(keys)

    def staged(self) -> int:
        """Calls that are staged now."""
        if self.plane is not None:
            return sum(unit.rows for unit in self.plane.served().values())
        assert self.settings.folder is not None
        return sum(1 for _ in Path(self.settings.folder).iterdir())

    def pids(self) -> dict[str, int]:
        """Processes that the store needs, by name."""
        return self.plane.pids() if self.plane is not None else {}


@contextmanager
def opened(kind: Kind, folder: Path) -> Iterator[Opened]:
    """Open a new store; what it needs ends with it.

    Args:
        kind: of store.
        folder: takes the files.
    """
    if kind == "files":
        settings = CaptureSettings(folder=str(folder / "staged"), deadline_s=DEADLINE_S)
        yield Opened(open_store(settings), settings)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # The plane's processes import this project too.
    os.environ["PYTHONPATH"] = str(ROOT)
    import ray

    from posttrain.cluster import SYSTEM_CONFIG
    from posttrain.dataplane.transfer_queue import TransferQueuePlane

    ray.init(
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE_BYTES,
        logging_level="ERROR",
        log_to_driver=False,
        # As in training.
        _system_config=SYSTEM_CONFIG,
    )
    try:
        plane = TransferQueuePlane.start(deadline_s=DEADLINE_S)
        try:
            settings = CaptureSettings(plane=plane.handle(), deadline_s=DEADLINE_S)
            address = ray.get_runtime_context().gcs_address
            yield Opened(PlaneStore(plane), settings, plane, address)
        finally:
            plane.close()
    finally:
        ray.shutdown()
