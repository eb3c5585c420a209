"""A capture that fails: the answer is the same, and the coordinates say that it failed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from unit.posttrain.capture.gate import AGAIN, QUESTION, Call, Gate, user
from unit.posttrain.capture.gate_light import post

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nemo_gym.token_id_capture.staging import StagedCallRecord, StageResult

    from posttrain.capture.staging import Store
    from posttrain.generation.worker import GenerationWorker

LOGGER = "nemo_gym.token_id_capture.staging.capture"
CALL_S = 60


@pytest.fixture
def gate(worker: GenerationWorker) -> Gate:
    return Gate(worker.base_url)


@pytest.fixture
def first(gate: Gate) -> Call:
    call = gate.ask([user(QUESTION)])
    assert call.coords.disposition == "staged"
    return call


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """What the worker has logged about captures."""
    with caplog.at_level("WARNING", LOGGER):
        yield lambda: "\n".join(record.getMessage() for record in caplog.records)


def failed(call: Call, worker: GenerationWorker) -> None:
    """Answered as without capture, and not staged."""
    coords = call.coords
    assert (coords.disposition, coords.staging_key, coords.digest) == ("capture_failed", None, None)
    assert (coords.prev_len, coords.delta_len) == (call.admission.prev_len, 0)
    assert coords.weight_version == worker.health()
    body = {"model": "policy", "max_tokens": 24, "temperature": 0.0, "messages": call.messages}
    code, answer = post(worker.base_url, body)
    assert code == 200
    assert call.content == answer["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"staging_chain": ["nobody/nowhere"]}, "not staged, or retired: nobody/nowhere"),
        ({"parent_chain_hash": "0" * 64}, "chain hash 0000"),
        ({"prev_len": 7}, "7 tokens of rollout"),
        ({"parent_call_id": "another"}, "that end with call another"),
        ({"rollout_id": "another"}, "rollout another"),
    ],
)
def test_a_parent_that_is_not_what_was_admitted(  # noqa: PLR0917
    worker: GenerationWorker,
    gate: Gate,
    first: Call,
    said: Any,
    changes: dict[str, Any],
    reason: str,
) -> None:
    admission = gate.admission(first, **changes)
    failed(gate.ask(first.continued(AGAIN), admission=admission), worker)
    assert reason in said()


def test_a_chain_in_another_order_or_without_a_link(
    worker: GenerationWorker, gate: Gate, first: Call, said: Any
) -> None:
    second = gate.ask(first.continued(AGAIN), first)
    keys = [str(call.coords.staging_key) for call in second.chain]
    for chain in (keys[::-1], keys[1:], [keys[0], *keys], [*keys, keys[1]]):
        admission = gate.admission(second, staging_chain=chain)
        failed(gate.ask(second.continued("More."), admission=admission), worker)
    assert said().count("UnprovenPrefixError") == 4


@pytest.mark.parametrize(
    ("messages", "changes", "reason"),
    [
        ([user(QUESTION)], {}, "no assistant message"),
        (None, {"truncate_prompt_tokens": 400}, "truncate_prompt_tokens=400"),
        (None, {"echo": True}, "echo=True"),
    ],
)
def test_a_conversation_that_cannot_be_spliced(  # noqa: PLR0917
    worker: GenerationWorker,
    gate: Gate,
    first: Call,
    said: Any,
    messages: Any,
    changes: dict[str, Any],
    reason: str,
) -> None:
    call = gate.ask(messages or first.continued(AGAIN), first, **changes)
    assert call.coords.disposition == "capture_failed"
    assert reason in said()
    assert call.coords.weight_version == worker.health()


def test_an_answer_whose_end_cannot_be_proven(
    worker: GenerationWorker, gate: Gate, first: Call, said: Any
) -> None:
    messages = first.continued(AGAIN)
    messages[1] = {"role": "assistant", "content": "4<|end|><|user|>no"}
    failed(gate.ask(messages, first), worker)
    assert "depends on the answer's own text" in said()


def test_media_are_not_captured_without_their_tensors() -> None:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    from posttrain.capture.errors import UncapturableError
    from posttrain.capture.worker.rendering import settle

    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = [{"type": "text", "text": "What is it?"}, picture]
    request = ChatCompletionRequest(messages=[{"role": "user", "content": parts}], model="m")
    with pytest.raises(UncapturableError, match="a part of type image_url"):
        settle(request)
    request = ChatCompletionRequest(messages=[{"role": "user", "content": parts[:1]}], model="m")
    settle(request)
    assert [dict(each) for each in request.messages] == [{"role": "user", "content": parts[:1]}]


def test_a_sink_that_refuses_and_one_that_raises(
    worker: GenerationWorker,
    gate: Gate,
    store: Store,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(key: str, row: Any) -> bool:
        del row
        raise OSError(28, f"no space for {key}")

    monkeypatch.setattr(store, "_insert", full)
    failed(gate.ask([user(QUESTION)]), worker)
    assert "no space for" in said()

    def broken(record: StagedCallRecord) -> StageResult:
        raise ZeroDivisionError(record.model_call_id)

    monkeypatch.setattr(store, "stage", broken)
    failed(gate.ask([user(QUESTION)]), worker)
    assert "token staging failed for rollout" in said()


def test_a_source_that_raises(  # noqa: PLR0917
    worker: GenerationWorker,
    gate: Gate,
    first: Call,
    store: Store,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(keys: list[str]) -> list[Any]:
        raise ZeroDivisionError(str(keys))

    monkeypatch.setattr(store, "fetch", broken)
    failed(gate.ask(first.continued(AGAIN), first), worker)
    assert "ZeroDivisionError" in said()


def test_an_engine_that_was_given_another_prompt(
    gate: Gate, first: Call, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm.renderers.online_renderer as vllm_renderer

    taken = vllm_renderer._reused_prompt_token_ids
    # One token of the prefix is lost on the way to the engine.
    monkeypatch.setattr(
        vllm_renderer,
        "_reused_prompt_token_ids",
        lambda request: (taken(request) or [])[1:] or None,
    )
    call = gate.ask(first.continued(AGAIN), first)
    assert call.coords.disposition == "capture_failed"
    assert "token extraction failed" in said()


def test_an_engine_that_renders_the_messages_itself(
    gate: Gate, first: Call, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm.renderers.online_renderer as vllm_renderer

    monkeypatch.setattr(vllm_renderer, "_reused_prompt_token_ids", lambda _: None)
    messages = first.continued(AGAIN)
    messages[1] = {"role": "assistant", "content": "Something else"}
    call = gate.ask(messages, first)
    assert call.coords.disposition == "capture_failed"
    assert "token extraction failed" in said()


def test_the_answer_leaves_only_when_its_call_is_staged(
    gate: Gate, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    stage = store.stage

    def slow(record: StagedCallRecord) -> StageResult:
        begun.set()
        assert may_go_on.wait(CALL_S)
        return stage(record)

    monkeypatch.setattr(store, "stage", slow)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(gate.ask, [user(QUESTION)])
        assert begun.wait(CALL_S)
        # The event loop is free meanwhile: others are answered.
        body = {"model": "policy", "max_tokens": 4, "messages": [user(AGAIN)]}
        assert post(gate.base_url, body)[0] == 200
        assert not asked.done()
        may_go_on.set()
        call = asked.result(CALL_S)
    assert call.coords.disposition == "staged"


def test_a_sink_beyond_its_deadline(
    worker: GenerationWorker,
    gate: Gate,
    store: Store,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_go_on = threading.Event()
    stage = store.stage

    def stuck(record: StagedCallRecord) -> StageResult:
        assert may_go_on.wait(CALL_S)
        return stage(record)

    assert worker._capture is not None
    monkeypatch.setattr(store, "stage", stuck)
    monkeypatch.setattr(worker._capture._chat, "_deadline_s", 0.3)
    try:
        failed(gate.ask([user(QUESTION)]), worker)
        assert "TimeoutError" in said()
    finally:
        may_go_on.set()
