"""Serve Gym's servers from one process: ``python -m posttrain.environment.serve NAME=FD ...``.

Run by the ``gym`` worker's interpreter. Gym starts a process for each server; its servers share
nothing but one HTTP client, so one event loop serves them all and Gym is imported once. The
configuration comes in ``NEMO_GYM_CONFIG_DICT``, a bound socket for each server by inheritance: no
port can be lost between choosing and serving it. Standard input is the parent's lifeline: at its
end, or at SIGTERM or SIGINT, the servers shut down.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import uvicorn
from math_verify import parse, verify
from nemo_gym.global_config import NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME, get_global_config_dict
from nemo_gym.server_utils import ServerClient, SimpleServer

from posttrain.imports import serve_promptly
from posttrain.stacks import register_stack_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# As Gym's own launcher: requests in flight are cancelled rather than waited for.
_GRACE_S = 0.5
# Longer than Gym's client keeps an idle connection, so that it never meets a closed one.
_KEEP_ALIVE_S = 30
STOPPING = (signal.SIGTERM, signal.SIGINT)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process, which has several of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_class(name: str) -> Any:
    """Gym's class for the server ``name`` of the configuration."""
    (kind, implementations), *_ = get_global_config_dict()[name].items()
    (implementation,) = implementations
    module = importlib.import_module(f"{kind}.{implementation}.app")
    found: Any
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, SimpleServer)
        and value.__module__ == module.__name__
    )
    if found.ray_enabled is not False:
        msg = f"{name}: {found.__name__} needs Ray, which this process does not start"
        raise RuntimeError(msg)
    return found


def application(name: str) -> Any:
    """The server ``name`` as an ASGI application, put together in the order that Gym does it."""
    os.environ[NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME] = name
    kind = server_class(name)
    server = kind(
        config=kind.load_config_from_global_config(),
        server_client=ServerClient(
            head_server_config=ServerClient.load_head_server_config(),
            global_config_dict=get_global_config_dict(),
        ),
    )
    app = server.setup_webserver()
    server.setup_liveness(app)
    server.setup_exception_middleware(app)
    server.setup_cancellation_middleware(app)
    return app


async def serve(sockets: dict[str, socket.socket]) -> None:
    """Serve each named server on its socket until the process is told to stop."""
    servers = {
        name: _Server(
            uvicorn.Config(
                application(name),
                access_log=False,
                log_level="warning",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        for name in sockets
    }

    def stop(why: str) -> None:
        print(f"stopping: {why}", flush=True)  # noqa: T201 - the log's last line tells who ended it
        for server in servers.values():
            server.should_exit = True

    def lifeline() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            stop("standard input ended")

    loop = asyncio.get_running_loop()
    take_signals(loop, stop)
    loop.add_reader(sys.stdin.fileno(), lifeline)
    serve_promptly()
    async with asyncio.TaskGroup() as group:
        for name, server in servers.items():
            group.create_task(server.serve(sockets=[sockets[name]]), name=name)


def take_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[str], None]) -> None:
    """Call ``stop`` in the loop at SIGTERM or SIGINT; those of forked children end only them.

    The verifier forks for each answer and ends the child by SIGTERM when its request is cancelled.
    Until a new child has let go of the loop's handler and of the pipe that it writes to, a signal
    of its own would stop these servers, so it is held back that long.
    """
    for number in STOPPING:
        loop.add_signal_handler(number, stop, number.name)
    os.register_at_fork(
        before=_hold_signals, after_in_parent=_release_signals, after_in_child=_forget_signals
    )


def _hold_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    _release_signals()


def warm_verifier() -> None:
    """Let math-verify build its parsers once, before the verifier forks for each answer."""
    verify(parse(r"\boxed{1}"), parse(r"\boxed{1}"))


if __name__ == "__main__":
    register_stack_dump()
    warm_verifier()
    inherited = (argument.rpartition("=") for argument in sys.argv[1:])
    asyncio.run(serve({name: socket.socket(fileno=int(fd)) for name, _, fd in inherited}))
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing is left to save, and finalising the imported libraries takes one to two seconds.
    os._exit(0)
