"""What a data plane refuses or cannot do: one class a cause.

`PlaneError` is all of them. `UnavailableError` is the infrastructure's: the same call may be made
again, also where the first one took place after all. The others are the caller's.
"""

from __future__ import annotations

from posttrain.errors import StackError


class PlaneError(StackError):
    """A call of a data plane that did not do what was asked."""


class UnknownPartitionError(PlaneError):
    """The partition was never registered."""


class PartitionConflictError(PlaneError):
    """The partition is registered with other fields or another capacity, or cannot be as asked."""


class UnknownFieldError(PlaneError):
    """The partition was registered without that field."""


class MissingFieldError(PlaneError):
    """The row is there, but was put without that field."""


class MissingKeyError(PlaneError):
    """No row was ever put under that id."""


class DuplicateKeyError(PlaneError):
    """A row is there under that id already, whatever it holds."""


class EvictedError(PlaneError):
    """The row of that id was cleared; its id is not used again."""


class CapacityError(PlaneError):
    """The partition has no room for that many rows more."""


class ValueTypeError(PlaneError):
    """A value, or an argument, that a plane does not take, or not in this field."""


class ClosedPlaneError(PlaneError):
    """The plane was closed by this process."""


class HandleError(PlaneError):
    """A handle with which this process cannot reach a plane."""


class UnavailableError(PlaneError):
    """The plane's processes could not do it; the same call may be made again."""


class PlaneTimeoutError(UnavailableError):
    """A process of the plane lives but did not answer before the call's deadline."""


class DeadUnitError(UnavailableError):
    """A storage unit's process died, and with it every row that it held."""


class DeadControllerError(UnavailableError):
    """The plane's ledger or TransferQueue's controller died: the plane as a whole is lost."""


class LostRowError(UnavailableError):
    """A storage unit does not hold the row that the ledger says it holds."""
