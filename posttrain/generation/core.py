"""vLLM's engine core in the process of its HTTP server: one thread that owns it, and a client.

vLLM 0.29 runs the engine of its asynchronous front end in a process of its own and talks to it
over ZMQ. Here the front end gets a client that hands calls to a thread instead: one process less
for each worker, with half a gigabyte and a second import of vLLM. Every call of the engine core
happens in that one thread, so the core needs no lock.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.engine.exceptions import EngineDeadError

from posttrain.generation.batch import Batch
from posttrain.generation.call import Call, Liveness
from posttrain.generation.queues import Queues
from posttrain.generation.stamp import Stamps, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vllm.config import VllmConfig
    from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequest
    from vllm.v1.executor import Executor

    from posttrain.generation.batch import Completion

# How long the thread rests when requests wait that the scheduler will not run yet (it is paused).
REST_S = 0.001


class InProcessCore(AsyncMPClient):
    """The engine core's client for ``AsyncLLM``, without a second process.

    ``AsyncMPClient`` states its asynchronous calls (weights' version, sleep, caches, collective
    calls and so on) by ``call_utility_async``; what it says about sockets and processes is
    replaced here. Its constructor is therefore not called.

    An exception while the engine steps is fatal: the engine is marked dead, and everybody who
    waits gets ``EngineDeadError``. :attr:`cause` keeps the reason.

    Args:
        vllm_config: the engine's configuration.
        executor_class: the executor that runs the model.
        log_stats: whether the scheduler keeps statistics.

    Raises:
        Exception: whatever the construction of the engine core raises.
    """

    def __init__(
        self, vllm_config: VllmConfig, executor_class: type[Executor], log_stats: bool
    ) -> None:
        self.resources = Liveness()
        self.engine_ranks_managed = [0]
        self.cause: BaseException | None = None
        self._stamps = Stamps()
        self._loop = asyncio.get_running_loop()
        self._outputs: asyncio.Queue[EngineCoreOutputs | None] = asyncio.Queue()
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        # Held to put a call and to close the queue, so that no call is left behind unanswered.
        self._door = threading.Lock()
        # Of each request that belongs to a batch; changed by the engine's thread, behind the door.
        self._batches: dict[str, Batch] = {}
        # Set when vLLM has ended what a dead rank left, and touches its queues no more.
        self._buried = threading.Event()
        ready: Future[None] = Future()

        def live() -> None:
            try:
                core = EngineCore(vllm_config, executor_class, log_stats, self._rank_died)
            except BaseException as error:  # noqa: BLE001 - raised in the constructor
                ready.set_exception(error)
                return
            queues = Queues.of(core.model_executor)
            ready.set_result(None)
            try:
                self._run(core)
            except Exception as error:  # noqa: BLE001 - every reason is a reason to be dead
                self._close(error)
            finally:
                core.shutdown()
                queues.close(self._buried)

        self._thread = threading.Thread(target=live, name="engine", daemon=True)
        self._thread.start()
        ready.result()

    def _run(self, core: EngineCore) -> None:
        """Serve calls first, step while there is work, otherwise wait for a call."""
        while True:
            busy = core.scheduler.has_requests() or bool(core.batch_queue)
            try:
                call = self._calls.get(block=not busy)
            except queue.Empty:
                self._step(core)
                continue
            if call is None:
                return
            call.run(core)

    def _step(self, core: EngineCore) -> None:
        outputs, executed = core.step_fn()
        core.post_step(executed)
        if outputs and (mine := outputs.get(0)) is not None:
            self._sort_out(mine)
        if not executed:
            time.sleep(REST_S)

    def _sort_out(self, outputs: EngineCoreOutputs) -> None:
        """Give batches what is theirs, and the front end the rest."""
        others = []
        for output in outputs.outputs:
            if (batch := self._batches.get(output.request_id)) is None:
                others.append(output)
                continue
            if output.finish_reason is not None:
                self._forget([output.request_id])
            batch.take(output)
        if others or not outputs.outputs:
            outputs.outputs = others
            self._deliver(outputs)

    def _forget(self, names: Sequence[str]) -> None:
        with self._door:
            for name in names:
                self._batches.pop(name, None)

    def _deliver(self, outputs: EngineCoreOutputs | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._outputs.put_nowait, outputs)

    def _close(self, cause: BaseException) -> None:
        """Mark the engine dead, and answer everybody who waits."""
        with self._door:
            if self.resources.engine_dead:
                return
            self.cause = cause
            self.resources.engine_dead = True
            batches, self._batches = set(self._batches.values()), {}
        for batch in batches:
            batch.answer.set_exception(EngineDeadError())
        while True:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                break
            if call is not None and call.answer.set_running_or_notify_cancel():
                call.answer.set_exception(EngineDeadError())
        self._deliver(None)

    def _rank_died(self) -> None:
        """Called by an executor with processes of its own (tensor parallel) when one is gone."""
        self._buried.set()
        self.condemn(RuntimeError("a tensor-parallel rank's process ended"))

    def condemn(self, cause: BaseException) -> None:
        """End an engine that must not serve any more (its weights are not provably right)."""
        self._close(cause)
        self._calls.put(None)

    async def call(self, function: Callable[[EngineCore], Any]) -> Any:
        """Run ``function`` in the engine's thread and return its result.

        Raises:
            EngineDeadError: the engine is dead, or dies before it comes to this call.
        """
        answer: Future[Any] = Future()
        with self._door:
            if self.resources.engine_dead:
                raise EngineDeadError
            self._calls.put(Call(function, answer))
        return await asyncio.wrap_future(answer)

    async def call_utility_async(self, method: str, *args: Any) -> Any:
        """Call the engine core's ``method``."""
        return await self.call(lambda core: getattr(core, method)(*args))

    async def get_output_async(self) -> EngineCoreOutputs:
        """Wait for the outputs of one step."""
        outputs = await self._outputs.get()
        if outputs is None:
            raise EngineDeadError
        return outputs

    async def add_request_async(self, request: EngineCoreRequest) -> None:
        """Queue a request; returns when the scheduler has it."""
        stamp = wanted()

        def add(core: EngineCore) -> None:
            core.add_request(*core.preprocess_add_request(request))
            if stamp is not None:
                version = int(core.get_weight_version())
                self._stamps.admitted(request.request_id, stamp, request.prompt_token_ids, version)

        await self.call(add)

    async def complete(self, requests: Sequence[EngineCoreRequest]) -> list[Completion]:
        """Run requests as one batch, all of them from the first step on.

        Were they added one by one, the engine would begin with the first while the others are
        still on their way: more steps, and in which of them a prompt is computed (so the last bits
        of its log-probabilities) would depend on the threads' timing.

        Returns:
            Token ids and natural log-probabilities, in the requests' order.

        Raises:
            EngineDeadError: the engine is dead, or dies before the last token.
        """
        if not requests:
            return []
        batch = Batch(request.request_id for request in requests)

        def begin(core: EngineCore) -> None:
            with self._door:
                if self.resources.engine_dead:
                    raise EngineDeadError
                self._batches |= dict.fromkeys(batch.names, batch)
            for request in requests:
                core.add_request(*core.preprocess_add_request(request))

        def give_up(core: EngineCore) -> None:
            self._forget(batch.names)
            core.abort_requests(batch.names)

        try:
            await self.call(begin)
            return await asyncio.wrap_future(batch.answer)
        except BaseException:
            # A dead engine has none of them any more.
            with suppress(EngineDeadError):
                await self.call(give_up)
            raise

    def batched(self) -> int:
        """How many requests of batches are in the engine: the front end counts its own only."""
        return len(self._batches)

    async def set_weight_version_async(self, weight_version: str) -> None:
        """Say which weights every step from now on is taken with."""

        def change(core: EngineCore) -> None:
            core.set_weight_version(weight_version)
            self._stamps.changed(core.scheduler.requests, int(weight_version))

        await self.call(change)

    def weight_version(self) -> int:
        """The version that was set last, without waiting for the engine's thread."""
        return self._stamps.version

    async def abort_requests_async(self, request_ids: list[str]) -> None:
        """Take requests out of the scheduler; nothing to do once the engine is dead."""
        if request_ids and not self.resources.engine_dead:
            await self.call(lambda core: core.abort_requests(request_ids))

    def dp_engines_running(self) -> bool:
        """Data parallel engines do not exist here."""
        return False

    def shutdown(self, timeout: float | None = None) -> None:
        """End the thread, and wait at most ``timeout`` seconds (default 10) for it."""
        self.condemn(EngineDeadError())
        if threading.current_thread() is not self._thread:
            self._thread.join(10.0 if timeout is None else timeout)
