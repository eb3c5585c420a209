"""Which weights a captured call is stamped with, when they change before, between and within."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.generation.stamp import Stamps, stamped, wanted
from unit.posttrain.capture.conftest import CALL_S, TINY_LLAMA
from unit.posttrain.capture.gate import AGAIN, QUESTION, Call, Gate, user
from unit.posttrain.generation.refitting import make_request, sending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posttrain.capture.staging import Store
    from posttrain.generation.worker import GenerationWorker

    State = Mapping[str, torch.Tensor]

CLOSE = 1e-5
LONG = {"max_tokens": 200, "ignore_eos": True, "temperature": 1.0, "seed": 3}


def changed(state: State, by: float) -> dict[str, torch.Tensor]:
    return {name: tensor * (1 + by) for name, tensor in state.items()}


def refit(worker: GenerationWorker, state: State, **changes: Any) -> int:
    with sending(state, make_request(**changes)) as offer:
        return worker.load_weights(offer).weight_version


@pytest.fixture(scope="module")
def forward() -> Callable[[State, Sequence[int], int], list[float]]:
    """Log-probabilities of the tokens from a place on, by transformers' forward pass."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(TINY_LLAMA, dtype=torch.float32).eval()

    @torch.no_grad()
    def logprobs(weights: State, tokens: Sequence[int], start: int) -> list[float]:
        model.load_state_dict(dict(weights))
        ids = torch.tensor([list(tokens)])
        rows = torch.log_softmax(model(ids).logits[0], dim=-1)[start - 1 : -1]
        return rows.gather(1, ids[0, start:].unsqueeze(1)).squeeze(1).tolist()

    return logprobs


def running_tokens(worker: GenerationWorker) -> list[int]:
    """How many tokens each request has that the engine is at work on."""
    core = worker._core
    assert core is not None
    counts: list[int] = worker._wait(
        core.call(lambda it: [each.num_output_tokens for each in it.scheduler.requests.values()]),
        CALL_S,
        "count",
    )
    return counts


def test_a_call_has_the_version_that_was_served_when_it_came(
    worker: GenerationWorker, store: Store, state: State
) -> None:
    gate = Gate(worker.base_url)
    before = worker.health()
    first = gate.ask([user(QUESTION)])
    one = refit(worker, changed(state, 1e-3))
    second = gate.ask(first.continued(AGAIN), first)
    two = refit(worker, state)
    third = gate.ask(second.continued("More."), second)
    stamps = [call.coords.weight_version for call in third.chain]
    assert stamps == [before, one, two]
    assert before < one < two
    row = gate.row(third, store)
    assert row.weight_versions == stamps
    keys = [str(call.coords.staging_key) for call in third.chain]
    assert store.extras(keys) == [None, None, None]


def during(worker: GenerationWorker, gate: Gate, state: State, after: int) -> tuple[Call, int]:
    """A call that other weights arrive in, once it has some tokens."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(gate.ask, [user(QUESTION)], **LONG)
        while max(running_tokens(worker), default=0) < after:
            assert not asked.done()
        version = refit(worker, state, in_flight="continue")
        return asked.result(CALL_S), version


def test_a_call_that_runs_through_a_sync_says_which_tokens_are_of_which_weights(
    worker: GenerationWorker, store: Store, state: State, forward: Callable[..., list[float]]
) -> None:
    gate = Gate(worker.base_url)
    before, others = worker.health(), changed(state, 0.02)
    call, version = during(worker, gate, others, after=5)
    assert call.coords.disposition == "staged"
    assert call.coords.weight_version == before
    key = str(call.coords.staging_key)
    (extras,) = store.extras([key])
    assert extras is not None
    ((_, place),) = [(0, place) for place, found in extras["weight_versions"] if found == version]
    assert extras == {"weight_versions": [[0, before], [place, version]]}
    assert 5 <= place < LONG["max_tokens"]
    (found,) = store.fetch([key])
    tokens, start = found.token_ids_delta, found.delta_len - LONG["max_tokens"]
    values = found.generation_log_probs_delta[start:]
    assert found.token_mask_delta == [0.0] * start + [1.0] * LONG["max_tokens"]
    old, new = forward(state, tokens, start), forward(others, tokens, start)
    assert values[:place] == pytest.approx(old[:place], abs=CLOSE)
    assert values[place:] == pytest.approx(new[place:], abs=CLOSE)
    # The test could not tell them apart otherwise.
    assert old[place:] != pytest.approx(new[place:], abs=CLOSE)
    refit(worker, state)
    # What continues it is computed, and trained, with the weights of its own time.
    second = gate.ask(call.continued(AGAIN), call)
    assert gate.row(second, store).weight_versions == [before, worker.health()]


def test_two_syncs_within_one_call(worker: GenerationWorker, store: Store, state: State) -> None:
    gate = Gate(worker.base_url)
    before = worker.health()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(gate.ask, [user(QUESTION)], **LONG)
        versions = []
        for after in (3, 20):
            while max(running_tokens(worker), default=0) < after:
                assert not asked.done()
            versions.append(refit(worker, changed(state, 1e-3 * after), in_flight="continue"))
        call = asked.result(CALL_S)
    (extras,) = store.extras([str(call.coords.staging_key)])
    assert extras is not None
    places, found = zip(*extras["weight_versions"], strict=True)
    assert list(found) == [before, *versions]
    assert places[0] == 0
    assert 3 <= places[1] < places[2]
    assert call.coords.weight_version == before
    refit(worker, state)


class Running:
    """What the scheduler knows of a request."""

    def __init__(self, num_output_tokens: int) -> None:
        self.num_output_tokens = num_output_tokens


def test_a_call_that_waits_through_a_sync_is_of_the_new_weights() -> None:
    stamps = Stamps()
    requests: dict[str, Any] = {"waits": Running(0), "runs": Running(4), "unasked": Running(1)}
    with stamped() as waits:
        assert wanted() is waits
        stamps.admitted("waits", waits, [1, 2], 7)
    with stamped() as runs:
        stamps.admitted("runs", runs, [1], 7)
    with stamped() as over:
        stamps.admitted("over", over, [3], 7)
    assert wanted() is None
    stamps.changed(requests, 8)
    requests["runs"].num_output_tokens = 9
    requests["waits"].num_output_tokens = 2
    stamps.changed(requests, 9)
    assert waits.versions == [(0, 8), (2, 9)]
    assert runs.versions == [(0, 7), (4, 8), (9, 9)]
    assert over.versions == [(0, 7)]
    assert stamps.version == 9
    assert waits.prompt_token_ids == [1, 2]
    # Nobody waits for it any more: nothing is kept.
    del waits, runs, over
    assert len(stamps._of) == 0


def test_tasks_at_the_same_time_have_stamps_of_their_own() -> None:
    async def one(barrier: asyncio.Barrier) -> bool:
        with stamped() as stamp:
            await barrier.wait()
            return wanted() is stamp

    async def many() -> list[bool]:
        barrier = asyncio.Barrier(3)
        return await asyncio.gather(*(one(barrier) for _ in range(3)))

    assert asyncio.run(many()) == [True] * 3
