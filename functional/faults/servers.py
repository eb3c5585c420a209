"""Stands in for the interpreter of Gym's servers, and changes one thing about them.

``python servers.py FAULT PYTHON ARGUMENT ...``: what PYTHON is started with by the stack is given
to it, with another bearer, other agents, or a proxy that makes the gate slow. Needs the worker
`gym`; whatever else the interpreter is started for is left as it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

MODULE = "posttrain.environment.serve"
CONFIGURATION = "NEMO_GYM_CONFIG_DICT"
BEARER = "POSTTRAIN_CAPTURE_BEARER"
GATE = "policy_model"
AGENT = "conversation_agent"
AGENTS = Path(__file__).resolve().parents[2] / "fixtures" / "agents"
# Manifests that come much too late, from the first one on.
SLOW = 3
SLOW_S = 30.0
_ASKED_FOR = "/training-token-capture/control/"
# Of the connection, not of the message.
_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


def main() -> None:
    """Become the real interpreter."""
    fault, python, *arguments = sys.argv[1:]
    if MODULE in arguments:
        if fault == "wrong_bearer":
            os.environ[BEARER] = secrets.token_urlsafe(32)
        elif fault == "slow_gate":
            if any(each.startswith(f"{GATE}=") for each in arguments):
                arguments = slow_gate(arguments)
        else:
            faulty_agent(fault)
    os.execv(python, [python, *arguments])  # noqa: S606 - no shell is wanted


def faulty_agent(fault: str) -> None:
    """Put the faulty agent in the place of the conversation's."""
    configuration: dict[str, Any] = json.loads(os.environ[CONFIGURATION])
    (kind, implementations), *_ = configuration[AGENT].items()
    (honest,) = implementations.values()
    kept = ("entrypoint", "host", "port", "model_server", "max_steps")
    own = {key: honest[key] for key in kept} | {"fault": fault}
    configuration[AGENT] = {kind: {"faulty_agent": own}}
    os.environ[CONFIGURATION] = json.dumps(configuration)
    path = [str(AGENTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)


def slow_gate(arguments: list[str]) -> list[str]:
    """Serve the gate's address by a proxy, in a child of the same process group.

    Returns:
        The arguments with another socket for the gate itself.
    """
    (place,) = (at for at, each in enumerate(arguments) if each.startswith(f"{GATE}="))
    front = socket.socket(fileno=int(arguments[place].rpartition("=")[2]))
    behind = socket.create_server(("127.0.0.1", 0))
    behind.set_inheritable(True)
    if os.fork() == 0:
        port = behind.getsockname()[1]
        behind.close()
        asyncio.run(Proxy(port).serve(front))
        os._exit(0)
    front.close()
    return [*arguments[:place], f"{GATE}={behind.detach()}", *arguments[place + 1 :]]


class Proxy:
    """Passes everything on to the gate at ``port``; the first manifests only when nobody waits."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._slow = SLOW

    async def serve(self, front: socket.socket) -> None:
        """Serve until the process is ended."""
        application = web.Application(client_max_size=1 << 28)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        await web.SockSite(runner, front).start()
        async with ClientSession(auto_decompress=False) as self._client:
            await asyncio.Event().wait()

    async def _pass_on(self, request: web.Request) -> web.Response:
        if request.path.startswith(_ASKED_FOR) and self._slow:
            self._slow -= 1
            await asyncio.sleep(SLOW_S)
        async with self._client.request(
            request.method,
            self._url + request.raw_path,
            headers={name: it for name, it in request.headers.items() if name.lower() not in _HOP},
            data=await request.read(),
            allow_redirects=False,
        ) as reply:
            kept = {name: it for name, it in reply.headers.items() if name.lower() not in _HOP}
            return web.Response(status=reply.status, headers=kept, body=await reply.read())


if __name__ == "__main__":
    main()
