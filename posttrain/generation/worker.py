"""A generation worker: one process with an engine, its HTTP server, and the refit of its weights.

The class is plain and synchronous; a group makes Ray actors of it. It must import without vLLM,
because the driver that names the class has none.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

from posttrain.errors import StackError, WorkerError
from posttrain.generation.loop import LoopThread
from posttrain.generation.noise import drop_expected_warnings
from posttrain.generation.port import bind
from posttrain.generation.settings import EngineSettings, Sampling, engine_environment
from posttrain.imports import collector_paused
from posttrain.refit.acknowledgement import Served

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from vllm.v1.engine.async_llm import AsyncLLM

    from posttrain.capture.worker.install import Capture
    from posttrain.generation.batch import Completion
    from posttrain.generation.core import InProcessCore
    from posttrain.generation.server import Server
    from posttrain.refit.acknowledgement import Acknowledgement
    from posttrain.refit.offer import Offer

T = TypeVar("T")
# Of the weights that an engine starts with.
FIRST_VERSION = 0


class GenerationWorker:
    """One engine and its server. Methods may be called from several threads.

    Args:
        name: for errors and acknowledgements.
        deadline_s: longest time for any one call but :meth:`start`, in seconds.
    """

    def __init__(self, name: str, deadline_s: float = 60.0) -> None:
        self.name = name
        self.deadline_s = deadline_s
        self._loop: LoopThread | None = None
        self._engine: AsyncLLM | None = None
        self._core: InProcessCore | None = None
        self._server: Server | None = None
        self._capture: Capture | None = None

    def start(self, settings: EngineSettings) -> str:
        """Load the model, start the engine and the server.

        How long that may take, the caller decides: it has nothing to lose by ending the process.

        Returns:
            The base URL for OpenAI clients, ending in ``/v1``.

        Raises:
            WorkerError: the port is in use, or the environment lacks a variable.
            ModelError: vLLM can't run this model.
            StackError: calls are to be captured and cannot be staged.
        """
        wanted = engine_environment(settings.threads)
        wrong = {key: os.environ.get(key) for key in wanted if os.environ.get(key) != wanted[key]}
        if wrong:
            raise WorkerError(
                f"{self.name} in a process with the engine's environment",
                f"{wrong}",
                f"start the process with {wanted}",
            )
        self._loop = LoopThread("http")
        try:
            return self._wait(self._start(settings), None, "start")
        except StackError:
            self.shutdown()
            raise

    async def _start(self, settings: EngineSettings) -> str:
        drop_expected_warnings()
        if settings.capture is not None:
            from posttrain.capture.worker.install import Capture

            self._capture = await asyncio.to_thread(Capture, settings.capture)
        sock = bind(settings.port)
        try:
            # Imported here, in the process that needs vLLM and with its environment set.
            with collector_paused():
                from posttrain.generation.engine import arguments, start_engine
                from posttrain.generation.server import Server
            args = arguments(settings)
            self._engine, self._core = start_engine(args)
        except BaseException:
            sock.close()
            raise
        await self._core.set_weight_version_async(str(FIRST_VERSION))
        prepare = self._capture.install if self._capture else None
        self._server = Server(self._engine, args, sock, prepare)
        await self._server.start()
        self._server.stamp(FIRST_VERSION)
        return self._server.base_url

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI clients."""
        if self._server is None:
            raise self._dead("it was not started")
        return self._server.base_url

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """Complete prompts without HTTP.

        Args:
            prompts: token ids, one sequence a prompt.
            sampling: for all of them.

        Returns:
            (token ids, natural log-probabilities) of each completion, in the prompts' order.

        Raises:
            WorkerError: the engine is dead, or did not answer in time.
        """

        async def all_of_them() -> list[Completion]:
            from posttrain.generation.direct import complete

            return await complete(*self._running(), prompts, sampling)

        return self._wait(all_of_them(), self.deadline_s, "generate")

    def load_weights(self, offer: Offer) -> Acknowledgement:
        """Serve the weights that are offered from now on, and prove it.

        Nothing is loaded before the manifest is exactly the model and all receivers have met the
        sender. While weights are loaded no request is scheduled; then the prefix cache is emptied
        and the live weights are read back. When anything fails after loading began, the engine is
        ended: a half-updated engine is never served, its server answers with an error.

        With ``in_flight="continue"`` in the offer's request, requests that the engine is at work
        on keep the tokens that they have, and get the others from the new weights: what the former
        ones computed for them is forgotten too, and computed again.

        Args:
            offer: what the policy sends while this call lasts.

        Raises:
            RefitError: requests are in flight and may not continue, the version is not newer, the
                manifest differs (each tensor is named), the sender does not send, or the live
                weights are not those that were offered.
            WorkerError: the engine is dead, or did not answer in time.
        """

        async def refit() -> Acknowledgement:
            from posttrain.generation.update import update_weights

            engine, core = self._running()
            if self._server is None:
                raise self._dead("it has no server")
            return await update_weights(engine, core, self.name, offer, self._server.stamp)

        return self._wait(refit(), self.deadline_s, "load_weights")

    def served(self) -> Served:
        """The version and the checksum (``posttrain.checksum``) of the live weights, read back.

        A model that is spread over tensor-parallel ranks is put together here for it, in host
        memory.

        Raises:
            WorkerError: the engine is dead, or did not answer in time.
            RefitError: a weight cannot be read back, or is not all there.
        """

        async def read() -> Served:
            from posttrain.generation.update import live_checksum, served_version

            _, core = self._running()
            return Served(await served_version(core), await live_checksum(core, self.name))

        return self._wait(read(), self.deadline_s, "served")

    def reset_prefix_cache(self) -> None:
        """Forget every cached prefix.

        Raises:
            WorkerError: the cache is in use by requests.
        """

        async def reset() -> None:
            _, core = self._running()
            if not await core.reset_prefix_cache_async():
                raise WorkerError(
                    f"an empty prefix cache in {self.name}",
                    "requests use it",
                    "wait until they are finished",
                )

        self._wait(reset(), self.deadline_s, "reset_prefix_cache")

    def sleep(self) -> None:
        """Hand the accelerator's memory over: weights go to host memory, caches are dropped.

        On a CPU there is no memory to hand over, and the call returns at once.

        Raises:
            WorkerError: an engine on an accelerator that was started without ``sleep_mode``.
        """
        self._wait(self._doze("sleep"), self.deadline_s, "sleep")

    def wake(self) -> None:
        """Take the accelerator's memory back after :meth:`sleep`; needed before a refit.

        Raises:
            WorkerError: as for :meth:`sleep`.
        """
        self._wait(self._doze("wake_up"), self.deadline_s, "wake")

    async def _doze(self, method: str) -> None:
        from posttrain.generation.memory import doze

        engine, _ = self._running()
        await doze(engine, self.name, method)

    def health(self) -> int:
        """The version of the weights that are served.

        Raises:
            WorkerError: the engine is dead; its reason is named.
        """

        async def check() -> int:
            from posttrain.generation.update import served_version

            _, core = self._running()
            return await served_version(core)

        return self._wait(check(), self.deadline_s, "health")

    def shutdown(self) -> None:
        """End the server and the engine; may be called more than once."""
        loop = self._loop
        if loop is None:
            return
        try:
            self._wait(self._stop(), self.deadline_s, "shutdown")
        finally:
            self._loop = None
            loop.stop(self.deadline_s)

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._engine is not None:
            if (handler := self._engine.output_handler) is not None:
                # Nobody waits for outputs now, and it would report the end as a failure.
                handler.cancel()
                await asyncio.gather(handler, return_exceptions=True)
            await asyncio.to_thread(self._engine.shutdown)
        if self._capture is not None:
            await asyncio.to_thread(self._capture.close)
        self._engine = self._core = self._server = self._capture = None

    def _running(self) -> tuple[AsyncLLM, InProcessCore]:
        if self._engine is None or self._core is None:
            raise self._dead("it was not started, or was shut down")
        if self._engine.errored:
            cause = self._core.cause
            raise self._dead(f"its engine ended by {type(cause).__name__}: {cause}") from cause
        return self._engine, self._core

    def _dead(self, found: str) -> WorkerError:
        return WorkerError(f"a running engine in {self.name}", found, "start a new worker")

    def _wait(self, work: Coroutine[Any, Any, T], deadline_s: float | None, what: str) -> T:
        """Run ``work`` in the server's loop; nothing waits longer than its deadline."""
        if self._loop is None:
            work.close()
            raise self._dead("it was not started, or was shut down")
        try:
            return self._loop.run(work, deadline_s)
        except StackError:
            raise
        except TimeoutError as error:
            raise WorkerError(
                f"{what} of {self.name} within {deadline_s} s",
                "no answer",
                "look at its stack, or give it more time",
            ) from error
        except Exception as error:
            cause = self._core.cause if self._core is not None else None
            raise WorkerError(
                f"{what} of {self.name}",
                f"{type(error).__name__}: {error}"
                + (f" (its engine ended by {type(cause).__name__}: {cause})" if cause else ""),
                "read the log of this worker",
            ) from error
