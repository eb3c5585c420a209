"""Ray actors of one kind, driven together: one deadline for all, deaths and late ones by name.

The driver needs nothing of the workers' environments; what an actor returns is plain Python.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from posttrain.errors import RecipeError, StackError, WorkerError
from posttrain.stacks import register_stack_dump, request_stack_dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DUMP_GRACE_S = 1.0  # between asking for stacks and going on
REMEDY = "read its log, then start a new group"


class ProcessActor:
    """The process around a worker, which a subclass makes; heavy imports happen only there.

    A wrapper, because Ray would run every method of a class that has asynchronous ones on one
    event loop, where a call that waits holds up all others.
    """

    _worker: Any

    def __init__(self) -> None:
        register_stack_dump()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker, whose results are plain Python."""
        return getattr(self._worker, method)(*arguments)

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def until_dead(self) -> None:
        """Never return: the call fails when the process dies, which is how others learn of it."""
        threading.Event().wait()


def actor_options(
    python: Path,
    environment: Mapping[str, str],
    placements: Sequence[Mapping[str, Any]],
    concurrency: int = 1,
) -> list[dict[str, Any]]:
    """Ray's options of actors that run in one worker environment.

    Args:
        python: the environment's interpreter.
        environment: variables of their processes.
        placements: `num_cpus`, `num_gpus`, `scheduling_strategy`; one mapping an actor.
        concurrency: calls that one actor answers at a time.
    """
    runtime = {"py_executable": str(python), "env_vars": dict(environment)}
    return [
        {"runtime_env": runtime, "max_concurrency": concurrency, **placement}
        for placement in placements
    ]


class Actors:
    """Named actors. They start on construction, all at once.

    Args:
        kind: their class.
        arguments: name to constructor arguments, one entry an actor.
        options: Ray's options, one mapping an actor: see `actor_options`.
        what: the actors in plural, for errors.

    Raises:
        RecipeError: there is not one place for each actor.
    """

    def __init__(
        self,
        kind: type[ProcessActor],
        arguments: Mapping[str, Sequence[Any]],
        options: Sequence[Mapping[str, Any]],
        what: str,
    ) -> None:
        if len(options) != len(arguments):
            raise RecipeError(
                f"places for {len(arguments)} {what}",
                f"{len(options)} places",
                "give one place for each; the runner may have too few devices",
            )
        # A new process would have the first weights, so Ray must not start one by itself.
        actor = ray.remote(max_restarts=0, max_task_retries=0)(kind)
        self._handles = {
            name: actor.options(**chosen).remote(*own)
            for (name, own), chosen in zip(arguments.items(), options, strict=True)
        }
        self.names = list(self._handles)

    def submit(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a method of one worker; the result is for `gather`.

        Raises:
            WorkerError: the actors were shut down.
        """
        return self.handle(name, method).call.remote(method, *arguments)

    def handle(self, name: str, asked: str) -> Any:
        """Return the actor of that name, which is wanted for what `asked` says.

        Raises:
            WorkerError: the actors were shut down.
        """
        if name not in self._handles:
            found = "the group was shut down"
            raise WorkerError(f"{asked} of {name}", found, "make a new group")
        return self._handles[name]

    def call(self, method: str, *arguments: Any, timeout_s: float) -> dict[str, Any]:
        """Call a method of every worker: see `gather`."""
        calls = {name: self.submit(name, method, *arguments) for name in self.names}
        return self.gather(method, calls, timeout_s)

    def gather(self, asked: str, calls: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Collect one result an actor, whichever comes first, within one deadline for all.

        Raises:
            StackError: what a worker reports in the stack's own words.
            WorkerError: an actor died, failed, or did not answer in time; the late ones' processes
                were asked for their stacks.
        """
        deadline = time.monotonic() + timeout_s
        names = {call: name for name, call in calls.items()}
        results: dict[str, Any] = {}
        waiting = list(names)
        while waiting:
            left = max(0.0, deadline - time.monotonic())
            done, waiting = ray.wait(waiting, num_returns=1, timeout=left)
            if not done:
                request_stack_dumps()
                time.sleep(DUMP_GRACE_S)
                late = ", ".join(names[call] for call in waiting)
                raise WorkerError(f"{asked} of {late}", f"no answer in {timeout_s:g} s", REMEDY)
            for call in done:
                results[names[call]] = self.result(asked, names[call], call)
        return {name: results[name] for name in calls}

    @staticmethod
    def result(asked: str, name: str, call: Any) -> Any:
        """Return what a call that is done gave, or raise: see `gather`."""
        try:
            return ray.get(call)
        except RayTaskError as error:
            if isinstance(error.cause, StackError):
                raise error.cause from error
            raise WorkerError(f"{asked} of {name}", f"{name} failed: {error}", REMEDY) from error
        except RayActorError as error:
            raise WorkerError(f"{asked} of {name}", f"{name} died: {error}", REMEDY) from error
        except RayError as error:
            raise WorkerError(f"{asked} of {name}", f"{name}: {error}", REMEDY) from error

    def shutdown(self, grace_s: float = 0.0) -> None:
        """End the processes by force, at once or when the workers' own `shutdown` had its time.

        It cannot fail, and may be called again.
        """
        if grace_s and self._handles:
            calls = [handle.call.remote("shutdown") for handle in self._handles.values()]
            ray.wait(calls, num_returns=len(calls), timeout=grace_s)
        for handle in self._handles.values():
            ray.kill(handle)
        self._handles = {}
