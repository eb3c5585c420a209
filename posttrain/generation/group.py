"""All generation workers of a run, as Ray actors in the vLLM environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

from posttrain.actors import Actors, ProcessActor, actor_options
from posttrain.generation.settings import engine_environment
from posttrain.generation.worker import GenerationWorker
from posttrain.refit.offer import engine_receivers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from posttrain.generation.batch import Completion
    from posttrain.generation.settings import EngineSettings, Sampling
    from posttrain.refit.acknowledgement import Acknowledgement, Served
    from posttrain.refit.offer import Offer

# Calls that an actor answers at a time: a health check during another call, and `until_dead`.
CONCURRENT_CALLS = 5
# For servers and engines to end by themselves: one that is killed leaves its shared memory behind.
SHUTDOWN_S = 20.0
# The same when somebody waits for the run to go.
HURRY_S = 3.0


class GenerationActor(ProcessActor):
    """The process around a generation worker; arguments are the worker's."""

    def __init__(self, name: str, deadline_s: float) -> None:
        super().__init__()
        self._worker = GenerationWorker(name, deadline_s)


class GenerationGroup:
    """All engines. They start on construction, together; `wait_ready` waits for them.

    Args:
        settings: one for each worker, at least one.
        python: interpreter of the worker environment in which the engines run.
        environment: variables of the engines' processes, besides those of `engine_environment`.
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
        self.names = [f"generation-{index}" for index in range(len(settings))]
        # Every rank of every engine, to whom a refit's offer must be made.
        self.receivers = engine_receivers(
            [(name, own.tensor_parallel) for name, own in zip(self.names, settings, strict=True)]
        )
        self._actors = Actors(
            GenerationActor,
            {name: (name, call_timeout_s) for name in self.names},
            actor_options(
                python,
                {**(environment or {}), **engine_environment(settings[0].threads)},
                [{"num_cpus": 0.5}] * len(settings) if placements is None else placements,
                CONCURRENT_CALLS,
            ),
            what="generation workers",
        )
        self._deaths = {
            self._actors.handle(name, "a live process").until_dead.remote(): name
            for name in self.names
        }
        self._starting = {
            name: self._actors.submit(name, "start", own)
            for name, own in zip(self.names, settings, strict=True)
        }

    def wait_ready(self, timeout_s: float = 120.0) -> list[str]:
        """Wait until every server accepts requests.

        Returns:
            The base URLs for OpenAI clients, in the workers' order.

        Raises:
            StackError: what a worker reports, such as a port in use.
            WorkerError: a worker died or did not get ready within `timeout_s` seconds.
        """
        self._urls = self._actors.gather("start", self._starting, timeout_s)
        return self.base_urls

    @property
    def base_urls(self) -> list[str]:
        """The base URLs for OpenAI clients, in the workers' order; empty before `wait_ready`."""
        return list(self._urls.values())

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """Complete prompts without HTTP, spread over the workers; answers in the prompts' order."""
        shares = {name: prompts[index :: len(self.names)] for index, name in enumerate(self.names)}
        calls = {
            name: self._actors.submit(name, "generate", share, sampling)
            for name, share in shares.items()
            if share
        }
        answers = {
            name: iter(share)
            for name, share in self._actors.gather("generate", calls, self._timeout_s).items()
        }
        return [next(answers[self.names[i % len(self.names)]]) for i in range(len(prompts))]

    def refit(self, offer: Offer) -> list[Acknowledgement]:
        """Have every worker serve what is offered, which the policy sends meanwhile.

        Returns:
            One acknowledgement a worker; `check_acknowledgements` decides whether they suffice.

        Raises:
            RefitError: a worker refused the weights, or does not serve exactly them.
            WorkerError: a worker died or did not answer in time.
        """
        return list(self._call("load_weights", offer).values())

    def served(self) -> dict[str, Served]:
        """The version and the checksum of each worker's live weights, read back."""
        return self.ask_served()()

    def ask_served(self) -> Callable[[], dict[str, Served]]:
        """Have the weights read back; what is returned waits for the answers of `served`."""
        calls = {name: self._actors.submit(name, "served") for name in self.names}
        return lambda: self._actors.gather("served", calls, self._timeout_s)

    def check(self) -> None:
        """Raise when a worker's process has died; asks nobody, so it costs nothing.

        Raises:
            WorkerError: naming the worker.
        """
        dead, _ = ray.wait(list(self._deaths), num_returns=1, timeout=0)
        for call in dead:
            self._actors.result("a live process", self._deaths[call], call)

    def silent(self, patience_s: float) -> list[str]:
        """The workers that answer no health check within `patience_s` seconds."""
        calls = {self._actors.submit(name, "health"): name for name in self.names}
        answered, _ = ray.wait(list(calls), num_returns=len(calls), timeout=patience_s)
        return [name for call, name in calls.items() if call not in answered]

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

    def shutdown(self, grace_s: float = SHUTDOWN_S) -> None:
        """End the workers, by force after `grace_s`. It cannot fail, and may be called again."""
        self._actors.shutdown(grace_s)
        self._urls = {}

    def leave(
        self, kind: type[BaseException] | None, _error: object = None, _trace: object = None
    ) -> None:
        """End the workers as a block ends: in haste when it was interrupted or told to go."""
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.shutdown(HURRY_S if interrupted else SHUTDOWN_S)

    def _call(self, method: str, *arguments: Any) -> dict[str, Any]:
        return self._actors.call(method, *arguments, timeout_s=self._timeout_s)
