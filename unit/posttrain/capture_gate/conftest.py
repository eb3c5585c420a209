"""The real gate and real agents in front of a stub engine that stages as an engine's worker does.

The `gym` worker holds no engine. The stub has its own tokens (bytes) and says what it is told to;
what is captured goes through Gym's own `RolloutTokenCapture` into a store of these tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import pytest
from aiohttp import web
from nemo_gym.token_id_capture.staging import (
    CaptureAdmission,
    RolloutTokenCapture,
    StagedCallBaseSnapshot,
    StagedCallRecord,
    StageResult,
)

from posttrain.capture.errors import MissingRecordError
from posttrain.capture.finalize.finalizer import Finalizer
from posttrain.capture.finalize.words import Finalized, Scored
from posttrain.capture.gate.configure import CapturedServers
from posttrain.capture.gate.identity import captured, fresh_rollout_id
from posttrain.capture.gate.servers import Gate
from posttrain.data import Row, read_rows
from posttrain.environment.call import post, session
from posttrain.environment.configure import AGENT, MODEL, GymConfig, server
from posttrain.environment.conversations import CONVERSATION_AGENT, ConversationServers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
# Nothing here measures speed; a deadline that is no subject of a test is out of its way.
FAR_S = 300.0
TURNS = 3
FAULTS = ("none", "edits_history", "repeats_a_call")
USER, ASSISTANT, END = 259, 260, 257


class FolderStore:
    """A file a staged call; durable on return, the same again is fine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.broken = False

    def stage(self, record: StagedCallRecord, *, attachments: Any = None) -> StageResult:
        assert attachments is None
        if self.broken:
            return StageResult(ok=False, error="the disk is gone")
        self._path(record.staging_key).write_text(record.model_dump_json(), encoding="utf-8")
        return StageResult(ok=True, staging_key=record.staging_key)

    def fetch(self, staging_keys: list[str]) -> list[StagedCallBaseSnapshot]:
        return [
            StagedCallBaseSnapshot.model_construct(
                **{k: v for k, v in self.read(key).items() if k != "extras"}
            )
            for key in staging_keys
        ]

    def extras(self, staging_keys: Sequence[str]) -> list[dict[str, Any] | None]:
        return [self.read(key)["extras"] for key in staging_keys]

    def retire(self, staging_keys: Sequence[str]) -> None:
        for key in staging_keys:
            self._path(key).unlink(missing_ok=True)

    def read(self, key: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._path(key).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MissingRecordError("a staged call", key, "stage it") from None
        return found

    def change(self, key: str, **fields: Any) -> None:
        self._path(key).write_text(json.dumps(self.read(key) | fields), encoding="utf-8")

    def staged(self) -> set[str]:
        return {path.name.replace("~", "/") for path in self._folder.iterdir()}

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "~")


def rendered(messages: list[dict[str, Any]]) -> list[int]:
    """The chat template of the stub's model, without the prompt for an answer."""
    ids: list[int] = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content)
        ids += [ASSISTANT if message["role"] == "assistant" else USER, *content.encode(), END]
    return ids


class StubEngine:
    """An OpenAI-compatible engine whose worker stages what `ng_capture` asks it to.

    Attributes:
        store: where it stages.
        version: of its weights.
        requests: the bodies it was sent, in order.
        say: what it answers to a request.
        change: applied to a response before it is sent; it may also wait, or return another one.
        extras: what it stages besides tokens.
    """

    def __init__(self, store: FolderStore) -> None:
        self.store = store
        self._capture = RolloutTokenCapture(sink=store, weight_version_fn=lambda: self.version)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.reset()

    def reset(self) -> None:
        self.store.broken = False
        self.version = 3
        self.requests: list[dict[str, Any]] = []
        self.say: Callable[[dict[str, Any]], str] = lambda _: "It is \\boxed{4}."
        self.change: Callable[[dict[str, Any]], Any] = lambda _: None
        self.extras: dict[str, Any] | None = None
        self.honours_prefix = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(timeout=30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(application, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        text = self.say(body)
        generated = [*text.encode(), END]
        # Exact in float32, different for each token.
        logprobs = [-(1 + place % 16) / 16 for place in range(len(generated))]
        prompt, coords = self._staged(body, generated, logprobs)
        response = {
            "id": f"chatcmpl-{len(self.requests)}-{time.monotonic_ns()}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                    "token_ids": generated,
                    "logprobs": {
                        "content": [
                            {"token": f"token_id:{token}", "logprob": logprob, "top_logprobs": []}
                            for token, logprob in zip(generated, logprobs, strict=True)
                        ]
                    },
                }
            ],
            "prompt_token_ids": prompt,
            **coords,
        }
        changed = self.change(response)
        if asyncio.iscoroutine(changed):
            changed = await changed
        return changed if isinstance(changed, web.Response) else web.json_response(response)

    def _staged(
        self, body: dict[str, Any], generated: list[int], logprobs: list[float]
    ) -> tuple[list[int], dict[str, Any]]:
        messages = body["messages"]
        if "ng_capture" not in body:
            return [*rendered(messages), ASSISTANT], {}
        admission = CaptureAdmission.model_validate(body["ng_capture"])
        prefix: list[int] = []
        for key in admission.staging_chain:
            prefix += self.store.read(key)["token_ids_delta"]
        said = [place for place, one in enumerate(messages) if one["role"] == "assistant"]
        new = messages[said[-1] + 1 :] if prefix else messages
        prompt = [*prefix, *rendered(new), ASSISTANT]
        call = self._capture.begin_call(admission, prefix_token_ids=prefix)
        if not self.honours_prefix:
            prompt = [*rendered(messages), 0, ASSISTANT]
        coords = self._capture.complete_call(
            call,
            prompt_token_ids=prompt,
            generated_token_ids=generated,
            generated_logprobs=logprobs,
            extras=self.extras,
        )
        return prompt, {"ng_commit_coords": coords.model_dump(mode="json")}


class Bench:
    """A gate, its engine and a finalizer; what the tests do with them.

    Attributes:
        gate: Gym's servers.
        engine: in front of which they are.
        store: where it stages.
    """

    def __init__(self, gate: Gate, engine: StubEngine) -> None:
        self.gate = gate
        self.engine = engine
        self.store = engine.store
        self.deadline_s = FAR_S
        self.bearer = gate.bearer

    def ids(self, count: int = 1) -> list[str]:
        return [fresh_rollout_id("test", number) for number in range(count)]

    def run(
        self, row: Row, ids: Sequence[str], agent: str = AGENT, deadline_s: float = FAR_S
    ) -> list[Finalized]:
        """Roll the row out under each id at once, and finalize."""

        async def group() -> list[Finalized]:
            async with session() as client:
                scored = await asyncio.gather(
                    *(self._roll_out(client, row, one, agent, deadline_s) for one in ids)
                )
            return await self._finalized(scored)

        return asyncio.run(group())

    def finalize(
        self, sample_id: str, response: dict[str, Any] | None = None, **answer: Any
    ) -> Finalized:
        """Finalize what an agent of the test's own has done."""
        whole = {"response": response, "reward": 1.0, "terminated": True} | answer
        scored = Scored(sample_id, 0, whole, time.monotonic())

        async def one() -> list[Finalized]:
            return await self._finalized([scored])

        (found,) = asyncio.run(one())
        return found

    def finalizer(self) -> Finalizer:
        manifests = self.gate.manifests(self.deadline_s)
        manifests._bearer = self.bearer
        return Finalizer(manifests, self.store, self.gate.folder, self.deadline_s)

    async def _finalized(self, scored: Sequence[Scored]) -> list[Finalized]:
        finalizer = self.finalizer()
        try:
            return await finalizer.finalize_group(scored)
        finally:
            await finalizer.manifests.close()

    async def _roll_out(
        self,
        client: aiohttp.ClientSession,
        row: Row,
        sample_id: str,
        agent: str,
        deadline_s: float,
    ) -> Scored:
        body = captured({**row.raw, "_ng_task_index": row.index, "_ng_rollout_index": 0}, sample_id)
        url = f"{self.gate.url(agent)}/run"
        answer = await post(client, url, body, asked="a rollout", deadline_s=deadline_s)
        return Scored(sample_id, row.index, answer, time.monotonic())

    def call(self, sample_id: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """One call of the model, as a black-box agent makes it: over HTTP, with any history."""
        url = f"{self.gate.url(MODEL)}/ng-rollout/{sample_id}/training-token-capture/v1/responses"

        async def once() -> dict[str, Any]:
            async with session() as client:
                return await post(
                    client, url, {"input": messages}, asked="an answer", deadline_s=FAR_S
                )

        return asyncio.run(once())

    def talk(self, sample_id: str, *questions: str) -> dict[str, Any]:
        """An honest agent of the test's own; returns the last response."""
        history: list[dict[str, Any]] = []
        response: dict[str, Any] = {}
        for question in questions:
            history.append(user(question))
            response = self.call(sample_id, history)
            history += response["output"]
        return response


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


class Everything:
    """Gym's own agents, and one for each fault of `fixtures/agents`."""

    def __init__(self, engine: StubEngine) -> None:
        math = GymConfig(model="tiny-llama", engine_urls=(engine.url,))
        self._honest = ConversationServers(math)
        self.names = (*self._honest.names, *FAULTS)

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        configuration = self._honest.configuration(ports)
        for fault in FAULTS:
            configuration |= server(
                fault,
                ports[fault],
                "responses_api_agents",
                "faulty_agent",
                model_server={"type": "responses_api_models", "name": MODEL},
                fault=fault,
            )
        return configuration


def make_gate(engine: StubEngine, folder: Path) -> Gate:
    config = CapturedServers(Everything(engine), folder / "capture", TURNS)
    return Gate(Path(sys.executable), config, folder / "gym", FAR_S)


@pytest.fixture(scope="session", autouse=True)
def faulty_agents_are_found() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        path = [str(FIXTURES / "agents"), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        yield


@pytest.fixture(scope="session")
def shared(
    faulty_agents_are_found: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("shared")
    store = FolderStore(folder / "staged")
    with StubEngine(store) as engine, make_gate(engine, folder / "run") as gate:
        gate.wait_ready()
        yield Bench(gate, engine)


@pytest.fixture
def bench(shared: Bench) -> Iterator[Bench]:
    """A bench that all tests share which do not break it."""
    shared.engine.reset()
    yield shared
    shared.engine.reset()
    shared.deadline_s = FAR_S
    shared.bearer = shared.gate.bearer


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Bench]:
    """A bench that a test may break."""
    store = FolderStore(tmp_path / "staged")
    with StubEngine(store) as engine, make_gate(engine, tmp_path / "run") as gate:
        gate.wait_ready()
        yield Bench(gate, engine)


@pytest.fixture
def row() -> Row:
    return read_rows(FIXTURES / "gym_math.jsonl")[0]


@pytest.fixture
def conversation(row: Row) -> Row:
    """Two turns: the second is asked for whatever the first says."""
    raw = {
        **row.raw,
        "agent_ref": {"type": "responses_api_agents", "name": CONVERSATION_AGENT},
        "follow_ups": ["And now?"],
        "expected_answer": "\\boxed{4}",
    }
    return Row(0, raw)
