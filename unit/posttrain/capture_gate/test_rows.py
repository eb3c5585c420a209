"""Rows from real rollouts: the engine's own tokens, joined over the turns, all verified."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.capture.finalize.metrics import capture_metrics
from posttrain.environment.conversations import CONVERSATION_AGENT
from posttrain.sample import MultiTurnSample, Sample

if TYPE_CHECKING:
    from posttrain.data import Row

USER, ASSISTANT, END = 259, 260, 257
ANSWER = (*b"It is \\boxed{4}.", END)


def logprobs(count: int) -> tuple[float, ...]:
    return tuple(-(1 + place % 16) / 16 for place in range(count))


def test_one_turn_is_a_plain_sample_of_exactly_the_engines_tokens(bench: Any, row: Row) -> None:
    (sample_id,) = ids = bench.ids()
    (found,) = bench.run(row, ids)
    question = row.raw["responses_create_params"]["input"][0]["content"]
    assert found.sample == Sample(
        row=0,
        prompt_ids=(USER, *question.encode(), END, ASSISTANT),
        completion_ids=ANSWER,
        logprobs=logprobs(len(ANSWER)),
        reward=1.0,
        truncated=False,
        text="It is \\boxed{4}.",
        weight_version=3,
    )
    assert type(found.sample) is Sample
    assert (found.sample_id, found.cause, found.last_weight_version) == (sample_id, None, 3)
    (key,) = found.staging_keys
    assert key.startswith(f"{sample_id}/")
    assert (found.continuations, found.token_in) == (0, 0)
    assert found.staged_bytes == 16 * len(found.sample.token_ids)
    assert found.seconds > 0


def test_a_conversation_is_one_sequence_whose_second_turn_was_entered_by_token_ids(
    bench: Any, conversation: Row
) -> None:
    (found,) = bench.run(conversation, bench.ids(), CONVERSATION_AGENT)
    assert found.cause is None, found.detail
    question = conversation.raw["responses_create_params"]["input"][0]["content"]
    prompt = (USER, *question.encode(), END, ASSISTANT)
    between = (USER, *b"And now?", END, ASSISTANT)
    sample = found.sample
    assert isinstance(sample, MultiTurnSample)
    assert sample.token_ids == prompt + ANSWER + between + ANSWER
    assert sample.completion_ids == ANSWER + ANSWER
    assert sample.insertions == ((len(ANSWER), between),)
    assert sample.logprobs == logprobs(len(ANSWER)) * 2
    assert sample.reward == 1.0
    first, second = bench.engine.requests
    root, child = first["ng_capture"], second["ng_capture"]
    assert (root["mode"], root["staging_chain"]) == ("text", [])
    assert child["mode"] == "token_in"
    assert child["staging_chain"] == [found.staging_keys[0]]
    assert child["prev_len"] == len(prompt + ANSWER)
    # The engine's worker puts the parent's tokens together itself; they do not go over the wire.
    assert second["required_prefix_token_ids"] == []
    assert "return_token_ids" not in second
    assert (found.continuations, found.token_in) == (1, 1)


def test_a_group_has_a_result_for_each_of_its_rollouts_in_their_order(
    bench: Any, conversation: Row
) -> None:
    ids = bench.ids(6)
    found = bench.run(conversation, ids, CONVERSATION_AGENT)
    assert [each.sample_id for each in found] == ids
    assert [each.cause for each in found] == [None] * 6
    metrics = capture_metrics(found)
    assert metrics["capture/rows"] == 6
    assert metrics["capture/placeholders"] == 0
    assert metrics["capture/continuations"] == 6
    assert metrics["capture/token_in_rate"] == 1.0
    sizes = [16 * len(each.sample.token_ids) for each in found]
    assert metrics["capture/staged_bytes"] == sum(sizes)
    assert metrics["capture/seal_to_row_seconds/p50"] > 0
    assert (
        metrics["capture/seal_to_row_seconds/p50"]
        <= metrics["capture/seal_to_row_seconds/p99"]
        <= metrics["capture/seal_to_row_seconds/max"]
    )
    assert not [name for name in metrics if "placeholders/" in name or "poisoned" in name]


def test_a_row_says_the_oldest_and_the_newest_weights_that_generated_it(bench: Any) -> None:
    (sample_id,) = bench.ids()
    history = [{"role": "user", "content": "One?"}]
    first = bench.call(sample_id, history)
    bench.engine.version = 5
    # The engine's worker says so of a call that ran through a refit.
    bench.engine.extras = {"weight_versions": [[0, 5], [4, 6]]}
    history += [*first["output"], {"role": "user", "content": "Two?"}]
    found = bench.finalize(sample_id, bench.call(sample_id, history))
    assert found.cause is None, found.detail
    assert (found.sample.weight_version, found.last_weight_version) == (3, 6)


def test_retired_rows_leave_nothing_and_placeholders_their_ledger(bench: Any, row: Row) -> None:
    good, bad = bench.ids(2)
    (kept,) = bench.run(row, [good])
    bench.engine.change = lambda response: response.pop("ng_commit_coords")
    (lost,) = bench.run(row, [bad])
    assert lost.cause == "worker_response_missing_commit_coordinates"
    keys = {*kept.staging_keys, *lost.staging_keys}
    assert keys <= bench.store.staged()
    finalizer = bench.finalizer()
    assert finalizer.staging_keys(bad) == lost.staging_keys
    asyncio.run(finalizer.retire(sorted(keys), [good]))
    assert not keys & bench.store.staged()
    names = {path.name for path in bench.gate.folder.iterdir()}
    assert not {name for name in names if name.startswith(good)}
    assert f"{bad}.lineage.jsonl" in names


@pytest.mark.parametrize("turns", [2, 4])
def test_an_agent_of_any_kind_that_keeps_its_history_is_captured(bench: Any, turns: int) -> None:
    (sample_id,) = bench.ids()
    response = bench.talk(sample_id, *[f"Question {number}?" for number in range(turns)])
    found = bench.finalize(sample_id, response)
    assert found.cause is None, found.detail
    assert len(found.sample.spans) == turns
    assert (found.continuations, found.token_in) == (turns - 1, turns - 1)
