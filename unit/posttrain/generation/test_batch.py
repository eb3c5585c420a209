"""A batch of requests: kept in the engine's thread, answered as a whole, given up as a whole."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.outputs import LogprobsLists

from posttrain.errors import WorkerError
from posttrain.generation.batch import Batch
from posttrain.generation.settings import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable

    from posttrain.generation.worker import GenerationWorker

CALL_S = 60
PROMPT = list(range(40))


def step(name: str, token: int, logprob: float, *, last: bool = False) -> EngineCoreOutput:
    values = np.array([[logprob, -9.0]], dtype=np.float32)
    return EngineCoreOutput(
        request_id=name,
        new_token_ids=[token],
        new_logprobs=LogprobsLists(np.array([[token, 0]]), values, np.array([1])),
        finish_reason=FinishReason.LENGTH if last else None,
    )


def test_it_answers_when_the_last_request_is_done_in_the_order_it_was_asked() -> None:
    batch = Batch(["b", "a"])
    for output in (
        step("a", 7, -0.5, last=True),
        step("b", 1, -1.0),
        step("b", 2, -0.25, last=True),
    ):
        assert not batch.answer.done()
        batch.take(output)

    assert batch.answer.result(0) == [((1, 2), (-1.0, -0.25)), ((7,), (-0.5,))]


def test_an_empty_batch_is_answered_at_once(worker: GenerationWorker) -> None:
    assert worker.generate([], Sampling(max_tokens=4)) == []


def test_requests_over_http_are_answered_beside_a_batch(
    worker: GenerationWorker, chat: Callable[..., dict[str, Any]]
) -> None:
    alone = chat(worker.base_url)["choices"][0]["token_ids"]
    sampling = Sampling(max_tokens=100, ignore_eos=True)
    with ThreadPoolExecutor(2) as pool:
        batch = pool.submit(worker.generate, [PROMPT] * 8, sampling)
        beside = pool.submit(chat, worker.base_url)

        assert beside.result(CALL_S)["choices"][0]["token_ids"] == alone
        assert [len(ids) for ids, _ in batch.result(CALL_S)] == [100] * 8


def test_a_batch_that_is_late_leaves_nothing_in_the_engine(
    worker: GenerationWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "deadline_s", 0.2)
    with pytest.raises(WorkerError, match=r"generate of .* within 0.2 s"):
        worker.generate([PROMPT] * 8, Sampling(max_tokens=200, ignore_eos=True))
    monkeypatch.setattr(worker, "deadline_s", CALL_S)

    core = worker._core

    async def left() -> tuple[int, dict[str, Batch]]:
        return await core.call(lambda it: (len(it.scheduler.requests), core._batches))

    until = time.monotonic() + CALL_S
    while (found := worker._wait(left(), CALL_S, "test"))[0] and time.monotonic() < until:
        time.sleep(0.01)
    assert found == (0, {})
