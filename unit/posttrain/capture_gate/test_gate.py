"""The gate as the trainer configures it: its secret, its memory, its answers."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from posttrain.capture.gate.admission import PACE_S, Admission
from posttrain.capture.gate.bearer import VARIABLE, Bearer
from posttrain.capture.gate.client import ManifestClient
from posttrain.capture.gate.configure import CapturedServers
from posttrain.capture.gate.errors import (
    LateGateError,
    MalformedManifestError,
    UnreachableGateError,
)
from posttrain.capture.gate.identity import check_rollout_id, fresh_rollout_id
from posttrain.environment.configure import AGENT, MODEL, GymConfig
from posttrain.environment.conversations import CONVERSATION_AGENT, ConversationServers
from posttrain.errors import RecipeError, StackError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from posttrain.data import Row

SERVERS = ConversationServers(GymConfig(model="m", engine_urls=("http://127.0.0.1:9/v1",)))
PORTS = {name: 7000 + place for place, name in enumerate(SERVERS.names)}


def test_the_bearer_is_in_the_gates_environment_and_nowhere_else(bench: Any, row: Row) -> None:
    bench.run(row, bench.ids())
    token = bench.gate.bearer._token.encode()
    assert token in Path(f"/proc/{bench.gate.pid}/environ").read_bytes()
    run_dir = bench.gate.folder.parent
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    assert {"gym-config.json", "gym-gate.log", "gym-servers.log"} <= {path.name for path in files}
    assert not [path for path in files if token in path.read_bytes()]
    shown = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert token not in path.read_bytes()
        except OSError:
            continue
        shown += 1
    assert shown > 1


def test_a_bearer_shows_itself_in_no_text_and_no_pickle() -> None:
    one, other = Bearer(), Bearer()
    assert one.environment[VARIABLE] != other.environment[VARIABLE]
    assert len(one.environment[VARIABLE]) >= 43
    assert repr(one) == str(one) == "Bearer(secret)"
    with pytest.raises(TypeError):
        pickle.dumps(one)


def watch(gate: Any, over: threading.Event) -> int:
    """What a controller does all the time: see that the servers' process lives."""
    looks = 0
    while not over.wait(0.01):
        gate.check()
        looks += 1
    return looks


def test_a_recycled_gate_has_its_ledger_its_addresses_and_another_log(own: Any, row: Row) -> None:
    (sample_id,) = own.ids()
    response = own.talk(sample_id, "One?")
    before, url = own.gate.pid, own.gate.url(AGENT)
    resident = own.gate.resident_mb
    assert resident > 50
    assert not own.gate.recycle(resident * 10)
    assert own.gate.pid == before
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch, own.gate, over)
        try:
            assert own.gate.recycle(1)
        finally:
            over.set()
        assert watching.result() > 1
    assert own.gate.pid != before
    assert own.gate.url(AGENT) == url
    assert own.finalize(sample_id, response).cause is None
    assert own.run(row, own.ids())[0].cause is None
    names = {path.name for path in (own.gate.folder.parent / "gym").glob("*.log")}
    logs = {"gym-gate.log", "gym-servers.log", "gym-gate-2.log", "gym-servers-2.log"}
    assert names == logs


def test_the_configuration_with_capture_differs_only_in_what_capture_needs(tmp_path: Path) -> None:
    plain = SERVERS.configuration(PORTS)
    captured = CapturedServers(SERVERS, tmp_path, 2).configuration(PORTS)
    assert SERVERS.configuration(PORTS) == plain
    block = captured.pop("token_id_capture")
    assert block == {
        "enabled": True,
        "all_agents": True,
        "dir": str(tmp_path),
        "rebuild_response": False,
        "external_staging": True,
        "external_staging_backend": "vllm_worker",
        "control_auth_token_env": VARIABLE,
    }
    gate = captured[MODEL]["responses_api_models"]["vllm_model"]
    assert gate.pop("return_token_id_information") is False
    assert gate.pop("request_prompt_and_generation_token_ids") is False
    for name in (AGENT, CONVERSATION_AGENT):
        ((implementation, settings),) = captured[name]["responses_api_agents"].items()
        assert settings.pop("max_steps") == 2
        plain[name]["responses_api_agents"][implementation].pop("max_steps", None)
    for key in ("return_token_id_information", "request_prompt_and_generation_token_ids"):
        del plain[MODEL]["responses_api_models"]["vllm_model"][key]
    assert captured == plain


def test_the_ledgers_folder_is_absolute() -> None:
    with pytest.raises(RecipeError, match="absolute"):
        CapturedServers(SERVERS, Path("capture"), 2)


def test_rollout_ids_are_fresh_and_such_as_gym_takes() -> None:
    made = {fresh_rollout_id("g00012", 1, "r", 3) for _ in range(100)}
    assert len(made) == 100
    assert all(check_rollout_id(one).startswith("g00012-1-r-3-") for one in made)
    for wrong in ("", ".hidden", "-a", "a/b", "a b", "a" * 201, "é"):
        with pytest.raises(StackError, match="rollout id"):
            check_rollout_id(wrong)


def asked(answer: Callable[[web.Request], Awaitable[web.Response]], deadline_s: float) -> Any:
    """What a client makes of a server that answers like that."""

    async def run() -> Any:
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = ManifestClient(f"http://127.0.0.1:{runner.addresses[0][1]}/", Bearer(), deadline_s)
        try:
            return await client.manifest("one")
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, "no json"),
        (200, "[]"),
        (200, '{"rollout_id": "one", "records": 1}'),
        (200, '{"rollout_id": "another"}'),
        (200, '{"rollout_id": "one", "unknown": 1}'),
        (500, '{"rollout_id": "one"}'),
        (404, "{}"),
    ],
)
def test_anything_but_this_rollouts_manifest_is_malformed(status: int, text: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    with pytest.raises(MalformedManifestError):
        asked(answer, 60)


def test_an_answer_that_never_ends_is_late() -> None:
    async def answer(request: web.Request) -> Any:
        reply = web.StreamResponse()
        await reply.prepare(request)
        await reply.write(b'{"rollout_id": ')
        await asyncio.sleep(60)

    with pytest.raises(LateGateError, match=r"within 0\.3 s"):
        asked(answer, 0.3)


def test_a_connection_that_breaks_is_unreachable() -> None:
    async def answer(request: web.Request) -> Any:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(0)

    with pytest.raises(UnreachableGateError):
        asked(answer, 60)


def test_the_gates_errors_survive_pickling_with_their_cause() -> None:
    error = pickle.loads(pickle.dumps(LateGateError("a", "b", "c")))  # noqa: S301
    assert (type(error), error.cause, error.found) == (LateGateError, "gate_late", "b")


def test_admission_bounds_rollouts_and_pauses_only_when_none_is_under_way() -> None:
    async def run() -> list[str]:
        admission = Admission(rollouts=2, turns=3)
        assert admission.calls == 6
        said: list[str] = []
        go, both = asyncio.Event(), asyncio.Event()

        async def rollout(name: str) -> None:
            async with admission.rollout():
                said.append(name)
                if said == ["a", "b"]:
                    both.set()
                assert admission.in_flight <= 2
                await go.wait()

        async def pause() -> None:
            async with admission.paused():
                assert admission.in_flight == 0
                said.append("paused")
                await asyncio.sleep(0.05)
                said.append("resumed")

        first = [asyncio.create_task(rollout(name)) for name in "ab"]
        await both.wait()
        waiting = asyncio.create_task(pause())
        await asyncio.sleep(0.01)
        late = asyncio.create_task(rollout("c"))
        cancelled = asyncio.create_task(rollout("d"))
        await asyncio.sleep(0.01)
        assert said == ["a", "b"]
        cancelled.cancel()
        go.set()
        await asyncio.gather(*first, waiting, late)
        assert admission.in_flight == 0
        return said

    assert asyncio.run(run()) == ["a", "b", "paused", "resumed", "c"]


def test_rollouts_begin_one_after_the_other_and_one_that_is_cancelled_keeps_no_place() -> None:
    async def run() -> list[float]:
        admission, loop = Admission(rollouts=5, turns=1), asyncio.get_running_loop()
        began: list[float] = []
        go, four = asyncio.Event(), asyncio.Event()

        async def rollout() -> None:
            async with admission.rollout():
                began.append(loop.time())
                if len(began) == 4:
                    four.set()
                await go.wait()

        asked = loop.time()
        tasks = [asyncio.create_task(rollout()) for _ in range(5)]
        await asyncio.sleep(0)
        tasks[4].cancel()  # while it waits for its time
        await four.wait()
        assert admission.in_flight == 4
        go.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert admission.in_flight == 0
        return [at - asked for at in began]

    began = asyncio.run(run())
    assert len(began) == 4
    # Each has its time. A busy machine wakes one later, and the next is none the later for that.
    assert all(after >= 0.99 * turn * PACE_S for turn, after in enumerate(began)), began


def test_rollouts_that_are_cancelled_before_they_begin_take_no_time_of_the_next() -> None:
    async def run() -> float:
        admission, loop = Admission(rollouts=500, turns=1), asyncio.get_running_loop()

        async def rollout() -> None:
            async with admission.rollout():
                pass

        tasks = [asyncio.create_task(rollout()) for _ in range(400)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        asked = loop.time()
        await rollout()
        return loop.time() - asked

    # Their times together were 400 * PACE_S.
    assert asyncio.run(run()) < 100 * PACE_S


def test_a_pause_that_is_cancelled_lets_rollouts_begin_again() -> None:
    async def run() -> None:
        admission = Admission(1, 1)
        async with admission.rollout():
            pause = asyncio.create_task(admission.paused().__aenter__())
            await asyncio.sleep(0.01)
            pause.cancel()
            await asyncio.gather(pause, return_exceptions=True)
        async with asyncio.timeout(10), admission.rollout():
            assert admission.in_flight == 1

    asyncio.run(run())


@pytest.mark.parametrize(("rollouts", "turns"), [(0, 1), (1, 0)])
def test_admission_of_nothing_is_refused(rollouts: int, turns: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        Admission(rollouts, turns)


def test_the_configuration_is_json(tmp_path: Path) -> None:
    configuration = CapturedServers(SERVERS, tmp_path, 2).configuration(PORTS)
    assert json.loads(json.dumps(configuration)) == configuration
