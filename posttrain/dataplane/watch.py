"""Wait for a call of TransferQueue, and look at its processes meanwhile.

A storage unit that died does not break a connection that anybody would notice: the answer just does
not come. Ray knows at once.
"""

from __future__ import annotations

from concurrent.futures import CancelledError, wait
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from posttrain.dataplane.errors import (
    PlaneError,
    PlaneTimeoutError,
    UnavailableError,
)
from posttrain.dataplane.processes import CONTROLLER, LOOK_S, READ_LOG, closed
from posttrain.dataplane.tq import StorageKeyNotFoundError
from posttrain.dataplane.units import ask

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from posttrain.dataplane.plane import Served
    from posttrain.dataplane.processes import Deadline, Processes

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
PROBE_S = 1.0  # for storage units to show that they serve


class Work(Protocol[T_co]):
    """What is under way, for one thread."""

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after so many seconds at most."""

    def result(self) -> T_co:
        """What it gave, when it is done."""

    def give_up(self) -> None:
        """Wait for it no more."""


class OnLoop(Generic[T]):
    """Work on an event loop. Given up, it goes on: a part of it cannot be done again."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after so many seconds at most."""
        return bool(wait([self._future], seconds).done)

    def result(self) -> T:
        """What it gave, when it is done."""
        return self._future.result()

    def give_up(self) -> None:
        """Let it come to its end."""


def watched(
    asked: str, begin: Callable[[], Work[T]], deadline: Deadline, processes: Processes
) -> T:
    """Begin work of a client and return its result.

    Args:
        asked: for errors.
        begin: begins the work.
        deadline: of the call.
        processes: looked at meanwhile.

    Raises:
        DeadUnitError: a storage unit died, which is noticed within about a second.
        DeadControllerError: the controller or the ledger died.
        PlaneTimeoutError: the deadline came; names the units that are silent. `PROBE_S` later.
        UnavailableError: TransferQueue's own error.
        StorageKeyNotFoundError: a unit has no such row.
        ClosedPlaneError: the plane was closed meanwhile.
    """
    try:
        work = begin()
        try:
            _wait(asked, work, deadline, processes)
            return work.result()
        except BaseException:
            work.give_up()
            raise
    except CancelledError as error:
        raise closed(asked) from error
    except (StorageKeyNotFoundError, PlaneError):
        raise
    except Exception as error:
        processes.look(asked)
        found = f"TransferQueue: {type(error).__name__}: {error}"
        raise UnavailableError(asked, found, READ_LOG) from error


def served(asked: str, deadline: Deadline, processes: Processes) -> dict[str, Served]:
    """Ask every storage unit for its counts.

    Raises:
        DeadUnitError: a unit died.
        PlaneTimeoutError: a unit does not answer.
    """
    units = units_of(processes)
    answers = ask(units, min(PROBE_S, deadline.left()))
    if len(answers) < len(units):
        # A dead one need not be waited for.
        processes.look(asked)
        answers = ask(units, deadline.left())
    silent = [name for name in units if name not in answers]
    if silent:
        processes.look(asked)
        raise _timeout(asked, f"no answer from {', '.join(silent)}", deadline)
    return {name: answers[name] for name in units}


def units_of(processes: Processes) -> dict[str, Any]:
    """Return the addresses of the storage units, by name."""
    return {name: where for name, where in processes.addresses.items() if name != CONTROLLER}


def _wait(asked: str, work: Work[Any], deadline: Deadline, processes: Processes) -> None:
    while not work.wait(min(LOOK_S, deadline.left())):
        processes.look(asked)
        if not deadline.left():
            raise _late(asked, deadline, processes)


def _late(asked: str, deadline: Deadline, processes: Processes) -> PlaneTimeoutError:
    units = units_of(processes)
    answers = ask(units, PROBE_S)
    silent = [name for name in units if name not in answers]
    if silent:
        return _timeout(asked, f"{', '.join(silent)} lives but does not serve", deadline)
    found = "every storage unit serves now; one was held up for a while, or the controller is"
    return _timeout(asked, found, deadline)


def _timeout(asked: str, found: str, deadline: Deadline) -> PlaneTimeoutError:
    return PlaneTimeoutError(
        asked,
        f"{found}; {deadline.seconds:g} s went by",
        "look at what holds it up, or give the plane a longer deadline_s; then call again",
    )
