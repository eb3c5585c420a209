"""Real NeMo Gym servers in front of an endpoint that replays a real engine's recorded answers.

The `gym` worker holds no engine. The endpoint stands in for one only in these unit tests: the
functional job runs the same servers in front of real vLLM workers.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from aiohttp import web

from posttrain.data import Row, read_rows
from posttrain.environment.configure import GymConfig
from posttrain.environment.conversations import ConversationServers
from posttrain.environment.servers import GymServers
from posttrain.environment.verifiers import VERIFIERS, VerifierServers
from posttrain.rollout.collect import Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
# Nothing here measures speed; a deadline that is no subject of a test is out of its way.
FAR_S = 300.0


class RecordedEngine:
    """An OpenAI-compatible endpoint that knows the requests of `fixtures/recorded`.

    Attributes:
        requests: the bodies it was sent, in order.
        change: applied to a copy of each recorded response before it is sent; it may also return
            another response, or wait.
    """

    def __init__(self) -> None:
        path = FIXTURES / "recorded" / "chat_completions.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()
        self._answers = {
            self._key(line["request"]): line["response"] for line in map(json.loads, lines)
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.reset()

    def reset(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.change: Callable[[dict[str, Any]], Any] = lambda _: None
        self.asked = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def die(self) -> None:
        """Close the port and every connection, as a killed process does; again does nothing."""
        asyncio.run_coroutine_threadsafe(self._die(), self._loop).result(timeout=30)

    async def _die(self) -> None:
        if self._runner.server is not None:
            await self._site.stop()
            for connection in self._runner.server.connections:
                connection.transport.abort()
            await self._runner.cleanup()

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self._answer)
        # A handler ends with its connection, however long it would have waited.
        self._runner = web.AppRunner(application, handler_cancellation=True)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        self._port = self._runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.asked.set()
        response = copy.deepcopy(self._answers[self._key(body)])
        changed = self.change(response)
        if asyncio.iscoroutine(changed):
            changed = await changed
        return changed if isinstance(changed, web.Response) else web.json_response(response)

    @staticmethod
    def _key(request: dict[str, Any]) -> tuple[str, int | None]:
        return request["messages"][-1]["content"], request.get("max_tokens")


def gym_servers(engine: RecordedEngine, run_dir: Path) -> GymServers:
    config = GymConfig(model="tiny-llama", engine_urls=(engine.url,))
    return GymServers(Path(sys.executable), config, run_dir, FAR_S)


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[RecordedEngine]:
    with RecordedEngine() as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: RecordedEngine) -> Iterator[RecordedEngine]:
    shared_engine.reset()
    yield shared_engine
    shared_engine.reset()


@pytest.fixture(scope="session")
def gym(
    shared_engine: RecordedEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GymServers]:
    """Servers that all tests share which do not break them."""
    with gym_servers(shared_engine, tmp_path_factory.mktemp("gym")) as servers:
        servers.wait_ready()
        yield servers


class Everything:
    """Both environments and all verifiers, in one process."""

    def __init__(self, engine: RecordedEngine) -> None:
        math = GymConfig(model="tiny-llama", engine_urls=(engine.url,))
        self._conversations = ConversationServers(math)
        own = self._conversations.names
        self._verifiers = VerifierServers(tuple(name for name in VERIFIERS if name not in own))
        self.names = (*own, *self._verifiers.names)

    def configuration(self, ports: dict[str, int]) -> dict[str, Any]:
        return self._conversations.configuration(ports) | self._verifiers.configuration(ports)


@pytest.fixture(scope="session")
def everything(
    shared_engine: RecordedEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GymServers]:
    """All servers that there are, shared by the tests that do not break them."""
    config, folder = Everything(shared_engine), tmp_path_factory.mktemp("everything")
    with GymServers(Path(sys.executable), config, folder, FAR_S) as servers:
        servers.wait_ready()
        yield servers


@pytest.fixture
def agent(gym: GymServers) -> Agent:
    return Agent(gym.agent_url, deadline_s=FAR_S)


@pytest.fixture
def own_engine() -> Iterator[RecordedEngine]:
    """An engine that a test may let die."""
    with RecordedEngine() as engine:
        yield engine


@pytest.fixture
def own_gym(own_engine: RecordedEngine, tmp_path: Path) -> Iterator[GymServers]:
    """Servers that a test may break."""
    with gym_servers(own_engine, tmp_path / "gym") as servers:
        servers.wait_ready()
        yield servers


@pytest.fixture
def rows() -> list[Row]:
    """The dataset: the engine answers row 0 rightly, row 1 wrongly."""
    return read_rows(FIXTURES / "gym_math.jsonl")
