"""Every fault ends in a placeholder with its own cause, within its bound, and never in a reward."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from posttrain.capture.errors import MissingRecordError
from posttrain.capture.finalize.metrics import capture_metrics
from posttrain.capture.gate.bearer import Bearer
from posttrain.dataplane.errors import DeadUnitError, EvictedError, PlaneTimeoutError
from posttrain.environment.conversations import CONVERSATION_AGENT
from posttrain.errors import StackError, WorkerError

if TYPE_CHECKING:
    from posttrain.data import Row

TEXT = {"role": "user", "content": "One?"}


def placeholder(found: Any, cause: str) -> None:
    assert (found.sample, found.cause) == (None, cause), found.detail
    assert found.detail


def poisoned(found: Any, cause: str) -> None:
    placeholder(found, cause)
    metrics = capture_metrics([found])
    assert metrics[f"capture/poisoned/{cause}"] == 1
    assert metrics[f"capture/placeholders/{cause}"] == 1
    assert metrics["capture/rows"] == 0


def test_the_wrong_bearer(bench: Any, row: Row) -> None:
    bench.bearer = Bearer()
    (found,) = bench.run(row, bench.ids())
    placeholder(found, "gate_unauthorized")
    assert "401" in found.detail
    assert bench.bearer._token not in found.detail


def test_a_gate_that_is_slower_than_its_deadline(bench: Any) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")
    bench.deadline_s = 0.5
    os.kill(bench.gate.pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        found = bench.finalize(sample_id, response)
        took = time.monotonic() - before
    finally:
        os.kill(bench.gate.pid, signal.SIGCONT)
    placeholder(found, "gate_late")
    assert 0.5 <= took < 30
    bench.deadline_s = 300.0
    assert bench.finalize(sample_id, response).cause is None


def test_a_gate_that_is_gone(own: Any) -> None:
    (sample_id,) = own.ids()
    response = own.talk(sample_id, "One?")
    own.gate.stop()
    placeholder(own.finalize(sample_id, response), "gate_unreachable")


@pytest.mark.parametrize(
    ("agent", "cause"),
    [
        ("none", None),
        ("edits_history", "unresolved_parent"),
        ("repeats_a_call", "unresolved_parent"),
    ],
)
def test_one_of_gyms_agents_that_is_faulty(
    bench: Any, row: Row, agent: str, cause: str | None
) -> None:
    (found,) = bench.run(row, bench.ids(), agent)
    assert found.cause == cause, found.detail
    assert (found.sample is None) == (cause is not None)
    assert found.continuations == 1


def test_an_agent_that_edits_history(bench: Any) -> None:
    (sample_id,) = bench.ids()
    first = bench.call(sample_id, [TEXT])
    edited = json.loads(json.dumps(first["output"]))
    edited[0]["content"][0]["text"] = "It is five."
    second = bench.call(sample_id, [TEXT, *edited, {"role": "user", "content": "Two?"}])
    found = bench.finalize(sample_id, second)
    poisoned(found, "unresolved_parent")
    assert (found.continuations, found.token_in) == (1, 0)
    assert capture_metrics([found])["capture/token_in_rate"] == 0.0


def test_an_agent_that_edits_what_it_asked_before(bench: Any) -> None:
    (sample_id,) = bench.ids()
    first = bench.call(sample_id, [TEXT])
    other = {"role": "user", "content": "Another question?"}
    second = bench.call(sample_id, [other, *first["output"], TEXT])
    poisoned(bench.finalize(sample_id, second), "unresolved_parent")


def test_an_agent_that_repeats_a_call_and_goes_on(bench: Any) -> None:
    (sample_id,) = bench.ids()
    bench.call(sample_id, [TEXT])
    again = bench.call(sample_id, [TEXT])
    last = bench.call(sample_id, [TEXT, *again["output"], {"role": "user", "content": "Two?"}])
    poisoned(bench.finalize(sample_id, last), "unresolved_parent")


def test_an_agent_that_repeats_a_call_and_keeps_one_answer(bench: Any) -> None:
    (sample_id,) = bench.ids()
    bench.call(sample_id, [TEXT])
    found = bench.finalize(sample_id, bench.call(sample_id, [TEXT]))
    assert found.cause is None
    assert len(found.sample.spans) == 1
    assert len(found.staging_keys) == 2


def test_a_sink_that_takes_nothing(bench: Any, row: Row) -> None:
    bench.store.broken = True
    (found,) = bench.run(row, bench.ids())
    poisoned(found, "worker_capture_failed")


def test_a_sink_that_fails_for_one_rollout_of_a_group(bench: Any, conversation: Row) -> None:
    def second_turns_fail(body: dict[str, Any]) -> str:
        bench.store.broken = body["messages"][-1]["content"] == "And now?"
        return "It is \\boxed{4}."

    bench.engine.say = second_turns_fail
    (found,) = bench.run(conversation, bench.ids(), CONVERSATION_AGENT)
    poisoned(found, "worker_capture_failed")
    assert (found.continuations, found.token_in) == (1, 0)


def test_a_prompt_that_does_not_begin_with_the_parents_tokens(
    bench: Any, conversation: Row
) -> None:
    bench.engine.honours_prefix = False
    (found,) = bench.run(conversation, bench.ids(), CONVERSATION_AGENT)
    poisoned(found, "worker_capture_failed")


def test_an_engine_that_says_nothing_of_staging(bench: Any, row: Row) -> None:
    bench.engine.change = lambda response: response.pop("ng_commit_coords")
    (found,) = bench.run(row, bench.ids())
    poisoned(found, "worker_response_missing_commit_coordinates")


def test_an_engine_that_says_it_staged_another_call(bench: Any, row: Row) -> None:
    def lie(response: dict[str, Any]) -> None:
        response["ng_commit_coords"]["model_call_id"] = "another"

    bench.engine.change = lie
    (found,) = bench.run(row, bench.ids())
    poisoned(found, "invalid_worker_commit_coordinates")


def test_an_engine_that_errs_fails_the_rollout_and_poisons_what_an_agent_makes_of_it(
    bench: Any, row: Row
) -> None:
    bench.engine.change = lambda _: web.Response(status=400, text="no")
    rolled_out, spoken = bench.ids(2)
    with pytest.raises(WorkerError):
        bench.run(row, [rolled_out])
    with pytest.raises(WorkerError):
        bench.call(spoken, [TEXT])
    bench.engine.change = lambda _: None
    found = bench.finalize(spoken, bench.call(spoken, [TEXT]))
    poisoned(found, "request_finished_without_staged_coordinates")


def test_a_gate_killed_in_the_middle_of_a_call_of_an_agent_that_lives_on(own: Any) -> None:
    (sample_id,) = own.ids()
    first = own.call(sample_id, [TEXT])
    asked = threading.Event()

    async def never(_: dict[str, Any]) -> None:
        asked.set()
        await asyncio.sleep(300)

    def wait(response: dict[str, Any]) -> Any:
        return never(response)

    own.engine.change = wait
    history = [TEXT, *first["output"], {"role": "user", "content": "Two?"}]
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            own.call(sample_id, history)
        except WorkerError as error:
            failed.append(error)

    agent = threading.Thread(target=ask)
    agent.start()
    assert asked.wait(60)
    os.kill(own.gate.pid, signal.SIGKILL)
    agent.join(60)
    assert len(failed) == 1
    own.engine.change = lambda _: None
    own.gate.restart()
    own.gate.wait_ready()
    # The agent asks again, and is answered; the call in which the gate died stays without an end.
    found = own.finalize(sample_id, own.call(sample_id, history))
    poisoned(found, "missing_entry")
    assert (found.continuations, found.token_in) == (2, 1)


def test_a_gate_killed_in_the_middle_of_a_rollout_fails_its_dispatch_at_once(
    own: Any, row: Row
) -> None:
    def kill(_: dict[str, Any]) -> None:
        os.kill(own.gate.pid, signal.SIGKILL)

    gate = own.gate.pid
    own.engine.change = kill
    with pytest.raises(WorkerError, match="a rollout"):
        own.run(row, own.ids())
    with pytest.raises(WorkerError, match="killed by SIGKILL") as dead:
        own.gate.check()
    assert "gym-gate.log" in dead.value.todo
    assert own.gate.pid == gate


def test_the_gate_and_the_agents_die_together_and_the_one_that_died_is_named(own: Any) -> None:
    pids = own.gate.pids
    os.kill(pids["gym-servers"], signal.SIGKILL)
    end = time.monotonic() + 30
    while Path(f"/proc/{pids['gym-gate']}/cmdline").read_bytes():  # empty of one that has ended
        assert time.monotonic() < end
        time.sleep(0.02)
    with pytest.raises(WorkerError) as dead:
        own.gate.check()
    assert "gym-servers.log" in dead.value.todo
    own.gate.restart()
    own.gate.wait_ready()
    own.gate.check()


def test_a_rollout_that_did_not_go_through_the_gate(bench: Any) -> None:
    placeholder(bench.finalize(*bench.ids(), {"id": "x", "output": []}), "no_records")


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"token_ids_delta": [7] * 24}, "corrupt_digest"),
        ({"generation_log_probs_delta": [0.0] * 24}, "corrupt_digest"),
        ({"token_ids_delta": [1, 2]}, "invalid_snapshot"),
        ({"weight_version": 9}, "wrong_record"),
        ({"rollout_id": "another"}, "wrong_record"),
        ({"model_call_id": "another"}, "snapshot_identity_mismatch"),
    ],
)
def test_a_staged_record_that_was_changed(bench: Any, fields: dict[str, Any], cause: str) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")
    (key,) = bench.finalizer().staging_keys(sample_id)
    bench.store.change(key, **fields)
    placeholder(bench.finalize(sample_id, response), cause)


def test_extras_that_were_changed(bench: Any) -> None:
    bench.engine.extras = {"weight_versions": [[0, 3]]}
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")
    (key,) = bench.finalizer().staging_keys(sample_id)
    bench.store.change(key, extras={"weight_versions": [[0, 2]]})
    placeholder(bench.finalize(sample_id, response), "corrupt_extras")


def test_a_staged_record_that_is_gone(bench: Any) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")
    bench.store.retire(bench.finalizer().staging_keys(sample_id))
    placeholder(bench.finalize(sample_id, response), "staged_missing")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (MissingRecordError("a", "b", "c"), "staged_missing"),
        (EvictedError("a", "b", "c"), "staged_evicted"),
        (PlaneTimeoutError("a", "b", "c"), "staging_late"),
        (DeadUnitError("a", "b", "c"), "staging_dead"),
        (StackError("a", "b", "c"), "staging_failed"),
        (OSError("disk"), "staging_failed"),
    ],
)
def test_a_staging_area_that_errs(
    bench: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: str
) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")

    def fetch(_: list[str]) -> Any:
        raise error

    monkeypatch.setattr(bench.store, "fetch", fetch)
    placeholder(bench.finalize(sample_id, response), cause)


def test_a_staging_area_that_does_not_answer(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")
    bench.finalize(sample_id, response)
    bench.deadline_s = 2.0
    over = threading.Event()
    monkeypatch.setattr(bench.store, "fetch", lambda _: over.wait(60))
    # Ends the thread when the loop closes, which waits for it.
    threading.Timer(4.0, over.set).start()
    placeholder(bench.finalize(sample_id, response), "staging_late")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"reward": None}, "no_reward"),
        ({"reward": float("nan")}, "no_reward"),
        ({"mask_sample": True, "failure_reason": "the judge failed"}, "no_reward"),
        ({"terminated": False}, "gave_up"),
        ({"response": None}, "no_response"),
    ],
)
def test_a_rollout_without_a_verdict(bench: Any, answer: dict[str, Any], cause: str) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, "One?")
    placeholder(bench.finalize(sample_id, **{"response": response} | answer), cause)


def test_an_agent_that_needs_more_turns_than_the_recipe_admits(
    bench: Any, conversation: Row
) -> None:
    conversation.raw["follow_ups"] = ["And now?"] * 5
    (found,) = bench.run(conversation, bench.ids(), CONVERSATION_AGENT)
    placeholder(found, "gave_up")
    assert len(found.staging_keys) == 3


def test_an_answer_whose_id_and_content_are_of_different_calls(bench: Any) -> None:
    (sample_id,) = bench.ids()
    bench.engine.say = lambda body: f"It is {len(body['messages'])}."
    first = bench.call(sample_id, [TEXT])
    second = bench.call(sample_id, [TEXT, *first["output"], {"role": "user", "content": "Two?"}])
    mixed = {**second, "output": first["output"]}
    placeholder(bench.finalize(sample_id, mixed), "witness_disagreement")


def test_an_answer_that_no_call_gave_is_the_only_chains_when_there_is_one(bench: Any) -> None:
    (sample_id,) = bench.ids()
    bench.talk(sample_id, "One?", "Two?")
    summary = {"type": "message", "role": "assistant", "content": [
        {"type": "output_text", "text": "In short: four.", "annotations": []}
    ]}  # fmt: skip
    found = bench.finalize(sample_id, {"id": "summary", "status": "completed", "output": [summary]})
    assert found.cause is None, found.detail
    assert found.sample.text == "In short: four."
    assert len(found.sample.spans) == 2
