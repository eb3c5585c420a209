"""A Gym agent over HTTP without a model: its answers are functions of seed and weights."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from aiohttp import web

from posttrain.data import Row
from unit.posttrain.controller.peers import Weights, completion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Gym:
    """An agent over HTTP whose answer is a function of the request and the weights."""

    weights: Weights
    url: str = ""
    requests: int = 0
    late_s: float = 0.0
    third: Event = field(default_factory=Event)
    faults: list[Callable[[dict[str, Any]], web.Response]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests += 1
        if self.requests == 3:
            self.third.set()
        if self.faults:
            return self.faults.pop(0)(body)
        extra = json.loads(body["responses_create_params"]["metadata"]["extra_body"])
        ids, logprobs = completion(str(extra["seed"]), self.weights.served, 6)
        item = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": f"{ids}"}],
            "prompt_token_ids": [9, body["_ng_task_index"]],
            "generation_token_ids": ids,
            "generation_log_probs": logprobs,
        }
        await asyncio.sleep(self.late_s)
        # The order in which answers come is not that of the requests.
        await asyncio.sleep(0.001 * (ids[0] % 5))
        response = {"status": "completed", "output": [item]}
        return web.json_response({"reward": float(ids[0] % 2), "response": response})


@contextmanager
def serving() -> Iterator[Gym]:
    """Serve the agent in a thread of its own."""
    served = Gym(Weights())
    loop = asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/run", served.answer)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    runner = loop.run_until_complete(start())
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield served
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def rows(count: int = 5) -> list[Row]:
    """Tasks for it."""
    agent = {"name": "math_simple_agent"}
    params = {"input": [{"role": "user", "content": "?"}]}
    raw = {"agent_ref": agent, "responses_create_params": params}
    return [Row(index, raw) for index in range(count)]
