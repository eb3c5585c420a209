"""All generation workers of a run, as Ray actors in the vLLM environment."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from posttrain.errors import RecipeError, StackError, WorkerError
from posttrain.generation.settings import ENVIRONMENT
from posttrain.generation.worker import GenerationWorker
from posttrain.stacks import register_stack_dump, request_stack_dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from posttrain.generation.settings import EngineSettings, Sampling
    from posttrain.generation.worker import Completion
    from posttrain.refit.acknowledgement import Acknowledgement

# Calls that an actor answers at a time: a health check during another call, and `until_dead`.
CONCURRENT_CALLS = 5
DUMP_GRACE_S = 0.5  # between asking for stacks and going on
SHUTDOWN_S = 5.0  # for servers and engines to end by themselves


class GenerationActor:
    """The process around a worker, whose stacks can be dumped.

    A wrapper, because Ray would run every method of a class that has asynchronous ones on one
    event loop, where a call that waits holds up all others.
    """

    def __init__(self, name: str, deadline_s: float) -> None:
        self._dumps_stacks = register_stack_dump() is not None
        self._worker = GenerationWorker(name, deadline_s)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker, whose results are plain Python."""
        return getattr(self._worker, method)(*arguments)

    def until_dead(self) -> None:
        """Never return: the call fails when the process dies, which is how others learn of it."""
        threading.Event().wait()

    def watched(self) -> tuple[str, int]:
        """Return the node and the process that can be asked for stacks, process 0 for none."""
        node = ray.get_runtime_context().get_node_id()
        return node, os.getpid() if self._dumps_stacks else 0


class GenerationGroup:
    """All engines. They start on construction, together; `wait_ready` waits for them.

    Args:
        settings: one for each worker.
        python: interpreter of the worker environment in which the engines run.
        environment: variables of the engines' processes, besides those of `ENVIRONMENT`.
        placements: Ray's actor options, one mapping a worker: `num_cpus`, `num_gpus`,
            `scheduling_strategy`. By default half a CPU each.
        call_timeout_s: deadline of every call, in seconds.
    """

    def __init__(
        self,
        settings: Sequence[EngineSettings],
        *,
        python: Path,
        environment: Mapping[str, str] | None = None,
        placements: Sequence[Mapping[str, Any]] | None = None,
        call_timeout_s: float = 60.0,
    ) -> None:
        self._timeout_s = call_timeout_s
        self._urls: dict[str, str] = {}
        chosen = list(placements) if placements is not None else [{"num_cpus": 0.5}] * len(settings)
        if len(chosen) != len(settings):
            raise RecipeError(
                asked=f"places for {len(settings)} generation workers",
                found=f"{len(chosen)} places",
                todo="give one place for each worker",
            )
        runtime = {"py_executable": str(python), "env_vars": {**(environment or {}), **ENVIRONMENT}}
        # A new process would have the first weights, so Ray must not start one by itself.
        actor = ray.remote(max_restarts=0, max_task_retries=0)(GenerationActor)
        self._actors = {
            f"generation-{index}": actor.options(
                runtime_env=runtime, max_concurrency=CONCURRENT_CALLS, **placement
            ).remote(f"generation-{index}", call_timeout_s)
            for index, placement in enumerate(chosen)
        }
        self.names = list(self._actors)
        self._watched = [handle.watched.remote() for handle in self._actors.values()]
        self._deaths = {handle.until_dead.remote(): name for name, handle in self._actors.items()}
        self._starting = {
            name: handle.call.remote("start", own)
            for (name, handle), own in zip(self._actors.items(), settings, strict=True)
        }

    def wait_ready(self, timeout_s: float = 120.0) -> list[str]:
        """Wait until every server accepts requests.

        Returns:
            The base URLs for OpenAI clients, in the workers' order.

        Raises:
            StackError: what a worker reports, such as a port in use.
            WorkerError: a worker died or did not get ready within `timeout_s` seconds.
        """
        self._urls = self._results("start", self._starting, timeout_s)
        return self.base_urls

    @property
    def base_urls(self) -> list[str]:
        """The base URLs for OpenAI clients, in the workers' order; empty before `wait_ready`."""
        return list(self._urls.values())

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """Complete prompts without HTTP, spread over the workers; answers in the prompts' order."""
        shares = {name: prompts[index :: len(self.names)] for index, name in enumerate(self.names)}
        calls = {
            name: self._actor(name, "generate").call.remote("generate", share, sampling)
            for name, share in shares.items()
            if share
        }
        answers = {
            name: iter(share)
            for name, share in self._results("generate", calls, self._timeout_s).items()
        }
        return [next(answers[self.names[i % len(self.names)]]) for i in range(len(prompts))]

    def refit(self, path: Path, names: Sequence[str], version: int) -> list[Acknowledgement]:
        """Have every worker serve the weights published at `path`.

        Returns:
            One acknowledgement a worker; `check_acknowledgements` decides whether they suffice.

        Raises:
            RefitError: a worker refused the weights, or does not serve exactly them.
            WorkerError: a worker died or did not answer in time.
        """
        return list(self._call("load_weights", str(path), list(names), version).values())

    def checksums(self) -> dict[str, str]:
        """Each worker's checksum of its live weights, read back."""
        return self._call("checksum")

    def check(self) -> None:
        """Raise when a worker's process has died; asks nobody, so it costs nothing.

        Raises:
            WorkerError: naming the worker.
        """
        dead, _ = ray.wait(list(self._deaths), num_returns=1, timeout=0)
        for call in dead:
            self._result("a live process", self._deaths[call], call)

    def health(self) -> dict[str, int]:
        """The version of the weights that each worker serves; a dead engine is an error."""
        return self._call("health")

    def reset_prefix_caches(self) -> None:
        """Empty the prefix cache of every worker."""
        self._call("reset_prefix_cache")

    def sleep(self) -> None:
        """Have every engine hand its accelerator memory over; nothing on a CPU."""
        self._call("sleep")

    def wake(self) -> None:
        """Have every engine take its accelerator memory back."""
        self._call("wake")

    def shutdown(self) -> None:
        """End the workers, by force after `SHUTDOWN_S`. It cannot fail, and may be called again."""
        calls = [handle.call.remote("shutdown") for handle in self._actors.values()]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=SHUTDOWN_S)
        for handle in self._actors.values():
            ray.kill(handle)
        self._actors = {}
        self._urls = {}

    def _actor(self, name: str, what: str) -> Any:
        if name not in self._actors:
            raise WorkerError(
                asked=f"generation: {what}",
                found="the group was shut down",
                todo="make a new GenerationGroup",
            )
        return self._actors[name]

    def _call(self, method: str, *arguments: Any) -> dict[str, Any]:
        calls = {
            name: self._actor(name, method).call.remote(method, *arguments) for name in self.names
        }
        return self._results(method, calls, self._timeout_s)

    def _results(self, what: str, calls: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Collect one result a worker, whichever comes first, within one deadline for all."""
        deadline = time.monotonic() + timeout_s
        names = {call: name for name, call in calls.items()}
        results: dict[str, Any] = {}
        waiting = list(names)
        while waiting:
            left = max(0.0, deadline - time.monotonic())
            done, waiting = ray.wait(waiting, num_returns=1, timeout=left)
            if not done:
                late = ", ".join(names[call] for call in waiting)
                self._dump_stacks()
                raise WorkerError(
                    f"{what} of {late}",
                    f"no answer in {timeout_s:g} s",
                    "read its stacks and its log, then start a new group",
                )
            for call in done:
                results[names[call]] = self._result(what, names[call], call)
        return {name: results[name] for name in calls}

    def _result(self, what: str, name: str, call: Any) -> Any:
        try:
            return ray.get(call)
        except RayTaskError as error:
            if isinstance(error.cause, StackError):
                raise error.cause from error
            self._lost(what, name, error)
        except RayError as error:
            self._lost(what, name, error)

    @staticmethod
    def _lost(what: str, name: str, cause: RayError) -> NoReturn:
        raise WorkerError(
            f"{what} of {name}",
            f"{name} died: {cause}",
            "read its log, then start a new group",
        ) from cause

    def _dump_stacks(self) -> None:
        """Have the workers of this machine write their stacks down."""
        node = ray.get_runtime_context().get_node_id()
        known, _ = ray.wait(self._watched, num_returns=len(self._watched), timeout=0)
        for answer in known:
            with contextlib.suppress(RayActorError):  # a dead worker has no stacks
                where, pid = ray.get(answer)
                if where == node and pid:
                    request_stack_dump(pid)
        time.sleep(DUMP_GRACE_S)
