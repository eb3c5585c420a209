"""The data plane: rows of named fields, by id, that the processes of a run share.

Two implementations of `DataPlane`: `MemoryPlane` for one process, and `TransferQueuePlane` for a
Ray cluster. See docs/dataplane.md.
"""

from posttrain.dataplane.connect import connect
from posttrain.dataplane.errors import (
    CapacityError,
    ClosedPlaneError,
    DeadControllerError,
    DeadUnitError,
    DuplicateKeyError,
    EvictedError,
    HandleError,
    LostRowError,
    MissingFieldError,
    MissingKeyError,
    PartitionConflictError,
    PlaneError,
    PlaneTimeoutError,
    UnavailableError,
    UnknownFieldError,
    UnknownPartitionError,
    ValueTypeError,
)
from posttrain.dataplane.memory import MemoryPlane
from posttrain.dataplane.plane import DataPlane, Handle, Row, Served, Value

__all__ = [
    "CapacityError",
    "ClosedPlaneError",
    "DataPlane",
    "DeadControllerError",
    "DeadUnitError",
    "DuplicateKeyError",
    "EvictedError",
    "Handle",
    "HandleError",
    "LostRowError",
    "MemoryPlane",
    "MissingFieldError",
    "MissingKeyError",
    "PartitionConflictError",
    "PlaneError",
    "PlaneTimeoutError",
    "Row",
    "Served",
    "UnavailableError",
    "UnknownFieldError",
    "UnknownPartitionError",
    "Value",
    "ValueTypeError",
    "connect",
]
