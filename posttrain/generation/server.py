"""vLLM's own OpenAI-compatible HTTP server over an engine of this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import uvicorn
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.app import build_app

from posttrain.errors import WorkerError
from posttrain.ports import HOST

if TYPE_CHECKING:
    import socket
    from argparse import Namespace
    from collections.abc import Callable

    from starlette.datastructures import State
    from vllm.v1.engine.async_llm import AsyncLLM

# Seconds that requests in flight have when the server ends; then they are cancelled.
SHUTDOWN_S = 1

# What answers OpenAI's requests for completions.
STAMPED = ("openai_serving_chat", "openai_serving_completion")


class Server:
    """The HTTP server; runs in the event loop of its engine.

    Args:
        engine: the engine that answers.
        args: vLLM's server arguments.
        sock: a bound socket; the server owns it from now on.
        prepare: is given vLLM's services before the first request is accepted.
    """

    def __init__(
        self,
        engine: AsyncLLM,
        args: Namespace,
        sock: socket.socket,
        prepare: Callable[[State], None] | None = None,
    ) -> None:
        self._engine = engine
        self._prepare = prepare
        self._args = args
        self._sock = sock
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def base_url(self) -> str:
        """The address that OpenAI clients are given."""
        return f"http://{HOST}:{self._sock.getsockname()[1]}/v1"

    async def start(self) -> None:
        """Build vLLM's application, and return when requests are accepted."""
        tasks = await self._engine.get_supported_tasks()
        app = build_app(self._args, tasks, self._engine.model_config)
        await init_app_state(self._engine, app.state, self._args, tasks)
        if self._prepare is not None:
            self._prepare(app.state)
        config = uvicorn.Config(
            app,
            log_level=self._args.uvicorn_log_level,
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        self._server = uvicorn.Server(config)
        # vLLM's handler of engine errors looks for it there.
        app.state.server = self._server
        self._app = app
        self._task = asyncio.create_task(self._server.serve(sockets=[self._sock]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise WorkerError(
                    f"an HTTP server at {self.base_url}",
                    "it ended while it started",
                    "read the log of this worker",
                )
            await asyncio.sleep(0.01)

    def stamp(self, version: int) -> None:
        """Say in every answer from now on which weights gave it: ``system_fingerprint``."""
        for name in STAMPED:
            getattr(self._app.state, name).system_fingerprint = f"weights-{version}"

    async def stop(self) -> None:
        """Close the socket and all connections; requests have ``SHUTDOWN_S`` to finish."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
        self._sock.close()
