"""The processes behind a TransferQueue plane, all Ray actors: ledger, controller, storage units."""

from __future__ import annotations

import os
import secrets
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeAlias

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from posttrain.actors import actor_options
from posttrain.dataplane.errors import (
    ClosedPlaneError,
    DeadControllerError,
    DeadUnitError,
    HandleError,
    PlaneError,
    PlaneTimeoutError,
    UnavailableError,
)
from posttrain.dataplane.ledger_actor import LedgerActor
from posttrain.dataplane.ledger_call import Caller
from posttrain.dataplane.tq import (
    SequentialSampler,
    SimpleStorageUnit,
    TransferQueueController,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from posttrain.dataplane.connections import Call

NAMESPACE = "posttrain.dataplane"
LEDGER = "ledger"
CONTROLLER = "controller"
UNIT = "unit-"
LOOK_S = 0.5  # for the answer of a process that lives and is not busy
READ_LOG = "read its log, end this run's plane and start another"

# Where a process of TransferQueue listens, in plain values: role, id, ip, ports.
Address: TypeAlias = "dict[str, Any]"


class Deadline:
    """The end of one call, for all the steps that it takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())


class Processes:
    """The actors of one plane, by name: see `start` and `find`."""

    def __init__(self, name: str, actors: Mapping[str, Any], addresses: dict[str, Address]) -> None:
        self.name = name
        self.addresses = addresses
        self._actors = dict(actors)
        self._ledger: Caller | None = None
        self._ended = False

    @classmethod
    def start(
        cls, python: Path, environment: Mapping[str, str], units: int, start_s: float
    ) -> Processes:
        """Start a plane's processes in the interpreter of a worker.

        Raises:
            UnavailableError: a process died, or did not start in time; all are ended.
        """
        name = f"plane-{secrets.token_hex(4)}"
        names = [LEDGER, CONTROLLER, *(f"{UNIT}{rank}" for rank in range(units))]
        # No CPUs of the cluster: they wait for requests, and the ranks' places stay as they are.
        placed = [
            {
                "num_cpus": 0,
                "name": _actor_name(name, each),
                "namespace": NAMESPACE,
                "scheduling_strategy": "SPREAD",
            }
            for each in names
        ]
        options = dict(zip(names, actor_options(python, environment, placed), strict=True))
        ledger = ray.remote(LedgerActor).options(max_restarts=0, **options[LEDGER]).remote()
        controller = TransferQueueController.options(max_restarts=0, **options[CONTROLLER])
        actors = {
            LEDGER: ledger,
            CONTROLLER: controller.remote(sampler=SequentialSampler, polling_mode=True),
        }
        for each in names[2:]:
            unit = SimpleStorageUnit.options(max_restarts=0, **options[each])
            actors[each] = unit.remote(config={"num_data_storage_units": units})
        started = cls(name, actors, {})
        try:
            deadline = Deadline(start_s)
            for each in names[1:]:
                asked = f"start {each} of the data plane {name}"
                info = started.result(
                    asked, each, actors[each].get_zmq_server_info.remote(), deadline
                )
                started.addresses[each] = info.to_dict() | {"role": info.role.value}
            asked = f"start the data plane {name}"
            published = ledger.publish_addresses.remote(started.addresses)
            started.result(asked, LEDGER, published, deadline)
            started._find_ledger(asked, deadline)
        except PlaneError:
            started.end()
            raise
        return started

    @classmethod
    def find(cls, name: str, deadline: Deadline) -> Processes:
        """Find the processes of a plane that another process started.

        Raises:
            HandleError: this cluster has no such plane, or has it no more.
            UnavailableError: its ledger or its controller does not answer.
        """
        asked = f"connect to the data plane {name}"
        try:
            ledger = ray.get_actor(_actor_name(name, LEDGER), NAMESPACE)
            found = cls(name, {LEDGER: ledger}, {})
            found.addresses = found.result(asked, LEDGER, ledger.addresses.remote(), deadline)
            for each in found.addresses:
                found._actors[each] = ray.get_actor(_actor_name(name, each), NAMESPACE)
            # TransferQueue's client waits for it in its own time, and leaks when it is silent.
            ready = found._actors[CONTROLLER].__ray_ready__.remote()
            found.result(asked, CONTROLLER, ready, deadline)
            found._find_ledger(asked, deadline)
        except ValueError as error:
            raise HandleError(
                asked,
                f"this cluster does not have it: {error}",
                "connect while the plane runs, in the cluster in which it was started",
            ) from error
        return found

    def ledger(self, asked: str, deadline: Deadline, method: str, *arguments: Any) -> Any:
        """Call a method of the ledger: see `answer`."""
        call = self.ask_ledger(asked, method, *arguments)
        try:
            return self.answer(asked, call, deadline)
        finally:
            call.drop()

    def ask_ledger(self, asked: str, method: str, *arguments: Any) -> Call:
        """Begin to call a method of the ledger; what it gives is for `answer`.

        Raises:
            ClosedPlaneError: these processes were left.
        """
        if self._ledger is None:
            msg = "the ledger was not found yet"
            raise RuntimeError(msg)
        try:
            return self._ledger.ask(method, *arguments)
        except CancelledError as error:
            raise closed(asked) from error

    def answer(self, asked: str, call: Call, deadline: Deadline) -> Any:
        """Return what a call of the ledger gives.

        Raises:
            PlaneError: what the ledger refuses, in its own words.
            UnavailableError: the process died, failed, or did not answer in time.
            ClosedPlaneError: these processes were left meanwhile.
        """
        try:
            while not call.wait(min(LOOK_S, deadline.left())):
                self.look(asked)
                if not deadline.left():
                    raise self._late(asked, LEDGER, deadline)
        except CancelledError as error:
            raise closed(asked) from error
        try:
            return call.result()
        except PlaneError:
            raise
        except Exception as error:
            found = f"{LEDGER} failed: {type(error).__name__}: {error}"
            raise UnavailableError(asked, found, READ_LOG) from error

    def _find_ledger(self, asked: str, deadline: Deadline) -> None:
        door = self.result(asked, LEDGER, self._actors[LEDGER].door.remote(), deadline)
        self._ledger = Caller(door)

    def result(self, asked: str, name: str, call: Any, deadline: Deadline) -> Any:
        """Return what an actor's call gives.

        Raises:
            UnavailableError: the process died, failed, or did not answer in time.
        """
        try:
            return ray.get(call, timeout=deadline.left())
        except GetTimeoutError as error:
            raise self._late(asked, name, deadline) from error
        except RayTaskError as error:
            raise UnavailableError(asked, f"{name} failed: {error}", READ_LOG) from error
        except RayActorError as error:
            raise self._death(asked, name, error) from error
        except RayError as error:
            raise UnavailableError(asked, f"{name}: {error}", READ_LOG) from error

    def look(self, asked: str) -> None:
        """Raise when one of the processes is dead. A busy one is given `LOOK_S`.

        Raises:
            DeadUnitError: names the storage unit.
            DeadControllerError: the controller or the ledger.
        """
        calls = {actor.__ray_ready__.remote(): name for name, actor in self._actors.items()}
        done, _ = ray.wait(list(calls), num_returns=len(calls), timeout=LOOK_S)
        for call, name in calls.items():  # of several dead ones always the same is named
            if call in done:
                try:
                    ray.get(call)
                except RayActorError as error:
                    raise self._death(asked, name, error) from error

    def pids(self, deadline: Deadline) -> dict[str, int]:
        """Return the process id of each process, by name."""
        asked = f"name the processes of {self.name}"
        calls = {
            name: actor.__ray_call__.remote(lambda _: os.getpid())
            for name, actor in self._actors.items()
        }
        return {name: self.result(asked, name, call, deadline) for name, call in calls.items()}

    def leave(self) -> None:
        """Close the connections to the ledger. It cannot fail, and may be called again."""
        if self._ledger is not None:
            self._ledger.close()

    def end(self) -> None:
        """End the processes by force. It cannot fail, and may be called again."""
        self._ended = True
        for actor in self._actors.values():
            ray.kill(actor)

    def _late(self, asked: str, name: str, deadline: Deadline) -> PlaneTimeoutError:
        return PlaneTimeoutError(
            asked,
            f"{name} of {self.name} did not answer in {deadline.seconds:g} s",
            "look at what holds it up, or give the plane a longer deadline_s",
        )

    def _death(self, asked: str, name: str, error: RayActorError) -> PlaneError:
        if self._ended:
            return closed(asked)
        kind = DeadUnitError if name.startswith(UNIT) else DeadControllerError
        return kind(asked, f"{name} of {self.name} is dead: {error}", READ_LOG)


def closed(asked: str) -> ClosedPlaneError:
    """Say that a plane was closed."""
    return ClosedPlaneError(asked, "this plane was closed", "connect or start another")


def _actor_name(plane: str, process: str) -> str:
    return f"{plane}/{process}"
