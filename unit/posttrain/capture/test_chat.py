"""Capture in a real vLLM worker: what is staged is what the engine took and gave."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot

from unit.posttrain.capture.gate import AGAIN, QUESTION, Call, Gate, user
from unit.posttrain.capture.gate_light import post

if TYPE_CHECKING:
    from posttrain.capture.staging import Store
    from posttrain.generation.worker import GenerationWorker

ASSISTANT, END, USER = "<|assistant|>", "<|end|>", "<|user|>"
# So random that what it says cannot be made into the same tokens again.
WILD = {"temperature": 2.0, "ignore_eos": True, "max_tokens": 40}


@pytest.fixture(scope="module")
def tokenizer(worker: GenerationWorker) -> Any:
    from transformers import AutoTokenizer

    assert worker._engine is not None
    return AutoTokenizer.from_pretrained(worker._engine.model_config.model, local_files_only=True)


def plain(worker: GenerationWorker, messages: list[dict[str, Any]], **changes: Any) -> Any:
    """The answer without capture, with the tokens that it is of."""
    body = {"model": "policy", "max_tokens": 24, "temperature": 0.0, "messages": messages}
    asked = {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}
    code, answer = post(worker.base_url, body | asked | changes)
    assert code == 200, answer
    return answer


def staged(store: Store, call: Call) -> StagedCallBaseSnapshot:
    """What is staged of a call, digests checked."""
    assert call.coords.disposition == "staged"
    assert call.coords.staging_key is not None
    (snapshot,) = store.fetch([call.coords.staging_key])
    return StagedCallBaseSnapshot.model_validate(snapshot.model_dump())


def test_a_first_call_is_staged_as_the_engine_took_and_gave_it(
    worker: GenerationWorker, store: Store
) -> None:
    call = Gate(worker.base_url).ask([user(QUESTION)])
    found = staged(store, call)
    expected = plain(worker, [user(QUESTION)])
    prompt = expected["prompt_token_ids"]
    (choice,) = expected["choices"]
    logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert call.content == "2 + 2 = \\boxed{4}"
    assert found.token_ids_delta == [*prompt, *choice["token_ids"]]
    assert found.token_mask_delta == [0.0] * len(prompt) + [1.0] * len(logprobs)
    assert found.generation_log_probs_delta == [0.0] * len(prompt) + logprobs
    assert [struct.unpack("f", struct.pack("f", value))[0] for value in logprobs] == logprobs
    assert (found.mode, found.prev_len, found.weight_version) == ("text", 0, worker.health())
    assert call.coords.staging_key == f"{call.admission.rollout_id}/{call.admission.model_call_id}"
    for name in ("digest", "chain_hash", "cumulative_hash", "delta_len", "cum_len"):
        assert getattr(call.coords, name) == getattr(found, name)


def test_the_answer_has_what_was_asked_for_and_no_more(worker: GenerationWorker) -> None:
    expected = plain(worker, [user(QUESTION)], return_token_ids=False)
    answer = Gate(worker.base_url).ask([user(QUESTION)]).answer
    for each in (expected, answer):
        assert each.pop("id").startswith("chatcmpl-")
        each.pop("created")
    assert answer == expected
    asked = Gate(worker.base_url).ask([user(QUESTION)], return_token_ids=True).answer
    assert asked["prompt_token_ids"]
    assert asked["choices"][0]["token_ids"]
    bare = Gate(worker.base_url).ask([user(QUESTION)], logprobs=False, top_logprobs=None)
    assert bare.coords.disposition == "staged"
    assert bare.answer["choices"][0]["logprobs"] is None


def test_a_continuation_is_computed_from_its_parents_tokens(
    worker: GenerationWorker, store: Store, tokenizer: Any
) -> None:
    gate = Gate(worker.base_url)
    first = gate.ask([user(QUESTION)])
    second = gate.ask(first.continued(AGAIN), first, return_token_ids=True)
    parent, found = staged(store, first), staged(store, second)
    tail = f"{USER}{AGAIN}{END}{ASSISTANT}"
    generated = second.answer["choices"][0]["token_ids"]
    assert found.token_ids_delta == [*tokenizer.encode(tail), *generated]
    assert second.answer["prompt_token_ids"] == [
        *parent.token_ids_delta,
        *found.token_ids_delta[: -len(generated)],
    ]
    # The text of so plain an answer becomes the same tokens again.
    assert second.answer["prompt_token_ids"] == plain(worker, second.messages)["prompt_token_ids"]
    row = gate.row(second, store)
    assert row.token_ids == [*parent.token_ids_delta, *found.token_ids_delta]
    assert sum(row.token_mask) == sum(parent.token_mask_delta) + len(generated)


def test_tokens_that_their_text_does_not_give_again_are_entered_exactly(
    worker: GenerationWorker, store: Store, tokenizer: Any
) -> None:
    gate = Gate(worker.base_url, **WILD, seed=5)
    first = gate.ask([user(QUESTION)])
    second = gate.ask(first.continued(AGAIN), first, return_token_ids=True)
    third = gate.ask(second.continued("More."), second, return_token_ids=True)
    entered = third.answer["prompt_token_ids"]
    rendered = plain(worker, third.messages)["prompt_token_ids"]
    assert "\ufffd" in first.content
    assert entered != rendered
    calls = [staged(store, call) for call in (first, second)]
    before = [token for call in calls for token in call.token_ids_delta]
    # Neither answer ended by itself, so the template's end of a message is entered for it.
    tail = tokenizer.encode(f"{END}{USER}More.{END}{ASSISTANT}")
    ended = before[-1] == tail[0]
    assert entered == [*before, *tail[ended:]]
    row = gate.row(third, store)
    assert row.token_ids[: len(entered)] == entered
    assert len(row.model_call_ids) == 3
    assert sum(row.token_mask) == 3 * WILD["max_tokens"]


def test_what_follows_a_continuation_is_what_its_exact_prompt_gives(
    worker: GenerationWorker, store: Store
) -> None:
    from posttrain.generation.settings import Sampling

    gate = Gate(worker.base_url, **WILD, seed=6)
    first = gate.ask([user(QUESTION)])
    second = gate.ask(first.continued(AGAIN), first, temperature=0.0, return_token_ids=True)
    prompt = second.answer["prompt_token_ids"]
    sampling = Sampling(max_tokens=WILD["max_tokens"], ignore_eos=True)
    ((ids, values),) = worker.generate([prompt], sampling)
    found = staged(store, second)
    assert found.token_ids_delta[-len(ids) :] == list(ids)
    assert found.generation_log_probs_delta[-len(ids) :] == pytest.approx(values, abs=1e-5)


def test_an_answer_that_was_cut_off_is_closed_by_the_template(
    worker: GenerationWorker, store: Store, tokenizer: Any
) -> None:
    gate = Gate(worker.base_url)
    first = gate.ask([user(QUESTION)], max_tokens=5)
    assert first.answer["choices"][0]["finish_reason"] == "length"
    second = gate.ask(first.continued(AGAIN), first)
    found = staged(store, second)
    tail = tokenizer.encode(f"{END}{USER}{AGAIN}{END}{ASSISTANT}")
    assert found.token_ids_delta[: len(tail)] == tail


def test_messages_of_many_parts_and_tool_calls_can_be_continued(
    worker: GenerationWorker, store: Store, tokenizer: Any
) -> None:
    gate = Gate(worker.base_url)
    first = gate.ask([{"role": "system", "content": "Add."}, user(QUESTION)])
    called = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 3, "b": 3}'},
    }
    messages = [
        *first.messages,
        {"role": "assistant", "content": first.content, "tool_calls": [called]},
        {"role": "user", "content": [{"type": "text", "text": "One"}]},
        {"role": "system", "content": "Two"},
        user("Three"),
    ]
    second = gate.ask(messages, first)
    tail = tokenizer.encode(f"{USER}One{END}<|system|>Two{END}{USER}Three{END}{ASSISTANT}")
    assert staged(store, second).token_ids_delta[: len(tail)] == tail


def test_sixteen_rollouts_of_two_turns_at_once_are_all_captured(
    worker: GenerationWorker, store: Store
) -> None:
    def rollout(number: int) -> tuple[Gate, Call]:
        gate = Gate(worker.base_url, temperature=1.0, seed=number)
        first = gate.ask([user(f"What is {number} + {number}?")])
        return gate, gate.ask(first.continued(f"And {number} + 1?"), first)

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(rollout, range(16)))
    rows = [gate.row(call, store) for gate, call in together]
    assert len({row.rollout_id for row in rows}) == 16
    for number, row in enumerate(rows):
        _, alone = rollout(number)
        assert alone.content == together[number][1].content
        gate, call = together[number]
        snapshots = [staged(store, each) for each in call.chain]
        assert row.token_ids == [token for each in snapshots for token in each.token_ids_delta]
        assert len(row.model_call_ids) == 2
        assert gate.rollout == row.rollout_id


def test_the_same_call_again_is_staged_once(worker: GenerationWorker, store: Store) -> None:
    gate = Gate(worker.base_url)
    admission = gate.admission(None)
    first, again = (gate.ask([user(QUESTION)], admission=admission) for _ in range(2))
    assert again.coords == first.coords
    other = gate.ask([user(AGAIN)], admission=admission)
    assert other.coords.disposition == "capture_failed"
    assert other.content
    assert staged(store, first).digest == first.coords.digest


def test_two_choices_are_answered_and_not_captured(worker: GenerationWorker) -> None:
    call = Gate(worker.base_url).ask([user(QUESTION)], n=2, temperature=1.0, seed=1)
    assert len(call.answer["choices"]) == 2
    assert call.coords.disposition == "capture_failed"


def test_a_prompt_that_is_too_long_is_an_error_as_without_capture(
    worker: GenerationWorker, store: Store
) -> None:
    gate = Gate(worker.base_url, **WILD, seed=1)
    first = gate.ask([user("x" * 300)], max_tokens=100)
    messages = first.continued("y" * 200)
    admission = gate.admission(first)
    code, answer = post(worker.base_url, gate.body(messages, admission))
    assert code == 400
    assert "context length" in answer["error"]["message"]
    assert "ng_commit_coords" not in answer
    key = f"{admission.rollout_id}/{admission.model_call_id}"
    with pytest.raises(Exception, match=key):
        store.fetch([key])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stream": True}, "takes no streams"),
        ({"ng_capture": {"mode": "text"}}, "not a capture admission of this Gym"),
        ({"ng_capture": "yes"}, "not a capture admission of this Gym"),
    ],
)
def test_what_cannot_be_captured_by_its_nature_is_refused(
    worker: GenerationWorker, change: dict[str, Any], said: str
) -> None:
    gate = Gate(worker.base_url)
    body = gate.body([user(QUESTION)], gate.admission(None), **change)
    code, answer = post(worker.base_url, body)
    assert code == 400
    assert said in answer["error"]["message"]
    assert answer["error"]["param"] == "ng_capture"


def test_no_capture_that_is_null_is_no_capture(worker: GenerationWorker) -> None:
    gate = Gate(worker.base_url)
    body = gate.body([user(QUESTION)], gate.admission(None), ng_capture=None)
    code, answer = post(worker.base_url, body)
    assert code == 200
    assert "ng_commit_coords" not in answer
