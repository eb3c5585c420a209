"""An engine that decodes nothing, in a process of its own: it waits, answers, and stages.

    PYTHONPATH=. POLICY_PYTHON bench/gate_engine.py --socket FD --capture JSON [--ray ADDRESS]

Everything around the decoding is as in a worker of vLLM that captures: the parents' tokens are
fetched from the store and proven, the record is built and verified by Gym's `RolloutTokenCapture`,
and staged by one of a few threads before the answer leaves. A request without `ng_capture` is
answered with tokens and log-probabilities alone, as vLLM does. Tokens are bytes, so that a text
always has the same ones. It ends when its standard input does.

Routes beside the chat completions: `POST /decode` sets the seconds that calls take (a JSON number;
each takes half of it to half more, as the answers of one group do not end together), `POST /taken`
tells what happened since it was asked last (:class:`Taken`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web
from nemo_gym.token_id_capture.staging import CaptureAdmission, RolloutTokenCapture

from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging import open_store
from posttrain.capture.worker.prefix import resolve
from posttrain.imports import serve_promptly

if TYPE_CHECKING:
    from nemo_gym.token_id_capture.staging import CommitCoords, StagedCallRecord, StageResult

    from posttrain.capture.staging import Store

USER, ASSISTANT, END = 256, 257, 258
VERSION = 3
DIGITS = 8
THREADS = 16
LARGEST_BODY = 1 << 26


@dataclass
class Taken:
    """What an engine did.

    Attributes:
        calls: answered.
        staged: of those, staged.
        sink_seconds: of each call of the sink.
    """

    calls: int = 0
    staged: int = 0
    sink_seconds: list[float] = field(default_factory=list)


class TimedSink:
    """A store as a sink whose calls are timed."""

    def __init__(self, store: Store, taken: Taken) -> None:
        self._store = store
        self.taken = taken

    def stage(self, record: StagedCallRecord, *, attachments: Any = None) -> StageResult:
        """Stage, in the thread of the caller."""
        started = time.perf_counter()
        result = self._store.stage(record, attachments=attachments)
        self.taken.sink_seconds.append(time.perf_counter() - started)
        return result


class Engine:
    """Answers chat completions.

    Args:
        store: where calls are staged.
        generated: tokens of each answer.
    """

    def __init__(self, store: Store, generated: int) -> None:
        self._store = store
        self._taken = Taken()
        self._sink = TimedSink(store, self._taken)
        self._capture = RolloutTokenCapture(sink=self._sink, weight_version_fn=lambda: VERSION)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="capture")
        self._numbers = count()
        self._decode_s = 0.0
        self._random = random.Random(0)  # noqa: S311 - answers end at different times
        # The call's number comes first and an end of message last.
        self._filler = ("of the answer " * generated)[: generated - DIGITS - 1]
        # Exact in float32, different for each token.
        self._logprobs = [-(1 + place % 16) / 16 for place in range(generated)]
        # An engine takes its time on its accelerator; here the answer's lists are made beforehand,
        # all but what is about the number.
        tokens = [0] * DIGITS + [*self._filler.encode("ascii"), END]
        self._content = [
            {"token": f"token_id:{token}", "logprob": logprob, "top_logprobs": []}
            for token, logprob in zip(tokens, self._logprobs, strict=True)
        ]

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_post("/v1/chat/completions", self._answer)
        application.router.add_post("/decode", self._set_decode)
        application.router.add_post("/taken", self._take)
        return application

    async def _set_decode(self, request: web.Request) -> web.Response:
        self._decode_s = float(await request.text())
        return web.json_response({})

    async def _take(self, _: web.Request) -> web.Response:
        taken, self._taken = self._taken, Taken()
        self._sink.taken = self._taken
        return web.json_response(asdict(taken))

    async def _answer(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        number = next(self._numbers)
        text = f"{number:0{DIGITS}d}{self._filler}"
        generated = [*text.encode("ascii"), END]
        wanted = body.get("ng_capture")
        admission = None if wanted is None else CaptureAdmission.model_validate(wanted)
        prefix: list[int] = []
        if admission is not None and admission.mode == "token_in":
            prefix = await self._thread(resolve, admission, self._store)
        prompt = prefix + rendered(body["messages"], answers=not prefix)
        await asyncio.sleep(self._decode_s * self._random.uniform(0.5, 1.5))
        answer = self._completion(number, body, text, generated, prompt)
        if admission is not None:
            coords = await self._thread(self._stage, admission, prefix, prompt, generated)
            answer["ng_commit_coords"] = coords.model_dump(mode="json")
            self._taken.staged += coords.disposition == "staged"
        self._taken.calls += 1
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _thread(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def _stage(
        self,
        admission: CaptureAdmission,
        prefix: list[int],
        prompt: list[int],
        generated: list[int],
    ) -> CommitCoords:
        call = self._capture.begin_call(admission, prefix_token_ids=prefix)
        return self._capture.complete_call(
            call,
            prompt_token_ids=prompt,
            generated_token_ids=generated,
            generated_logprobs=list(self._logprobs),
        )

    def _completion(
        self,
        number: int,
        body: dict[str, Any],
        text: str,
        generated: list[int],
        prompt: list[int],
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        answer: dict[str, Any] = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
        }
        if body.get("logprobs"):
            first = [
                {**one, "token": f"token_id:{token}"}
                for token, one in zip(generated[:DIGITS], self._content, strict=False)
            ]
            choice["logprobs"] = {"content": first + self._content[DIGITS:]}
        if body.get("return_token_ids"):
            choice["token_ids"] = generated
            answer["prompt_token_ids"] = prompt
        return answer


def rendered(messages: list[dict[str, Any]], *, answers: bool) -> list[int]:
    """The prompt of a chat: all of it, or only what follows the last answer."""
    said = [place for place, one in enumerate(messages) if one["role"] == "assistant"]
    first = 0 if answers or not said else said[-1] + 1
    ids: list[int] = []
    for message in messages[first:]:
        content = message["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content)
        ids += [ASSISTANT if message["role"] == "assistant" else USER, *content.encode(), END]
    return [*ids, ASSISTANT]


async def serve(engine: Engine, bound: socket.socket) -> None:
    """Serve until standard input ends."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def lifeline() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            over.set()

    loop.add_reader(sys.stdin.fileno(), lifeline)
    runner = web.AppRunner(engine.application(), access_log=None)
    await runner.setup()
    await web.SockSite(runner, bound, backlog=4096).start()
    await over.wait()
    await runner.cleanup()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--socket", type=int, required=True, help="bound, inherited")
    parser.add_argument("--capture", required=True, help="capture settings as JSON")
    parser.add_argument("--generated", type=int, required=True, help="tokens of each answer")
    parser.add_argument("--ray", help="the cluster of a data plane")
    options = parser.parse_args()
    if options.ray:
        import ray

        ray.init(address=options.ray, logging_level="ERROR", log_to_driver=False)
    store = open_store(CaptureSettings(**json.loads(options.capture)))
    bound = socket.socket(fileno=options.socket)
    serve_promptly()  # as a generation worker does
    asyncio.run(serve(Engine(store, options.generated), bound))
    sys.stdout.flush()
    # Nothing is left to save, and Ray takes its time.
    os._exit(0)


if __name__ == "__main__":
    main()
