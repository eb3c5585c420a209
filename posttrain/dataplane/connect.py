"""Reach a data plane from its handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.dataplane.errors import HandleError
from posttrain.dataplane.memory import KIND as MEMORY

if TYPE_CHECKING:
    from posttrain.dataplane.plane import DataPlane, Handle

TRANSFER_QUEUE = "transfer_queue"


def connect(handle: Handle) -> DataPlane:
    """Make a plane for this process from another process's `DataPlane.handle`.

    Closing it leaves the plane itself and its rows as they are.

    Raises:
        HandleError: the handle is of a plane in memory, or of no kind that is known; or Ray is not
            initialised in this process, or in another cluster; or the plane is gone.
    """
    asked = f"connect to the data plane {handle!r}"
    kind = handle.get("kind") if isinstance(handle, dict) else None
    if kind == TRANSFER_QUEUE:
        # Imports Ray, torch and TransferQueue, which only a process that uses them should.
        from posttrain.dataplane.transfer_queue import TransferQueuePlane

        return TransferQueuePlane.join(handle)
    if kind == MEMORY:
        raise HandleError(
            asked,
            f"it lives in the memory of process {handle.get('pid')}, which shares it with its"
            " threads only",
            "use a TransferQueue plane where processes share rows",
        )
    raise HandleError(asked, "no kind that is known", "give what `DataPlane.handle` returned")
