"""Requests that run through a weight sync: they finish, and no token comes from mixed weights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError
from posttrain.generation.settings import Sampling
from posttrain.refit.transport import TRANSPORTS
from unit.posttrain.generation.refitting import CALL_S, offered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posttrain.generation.worker import GenerationWorker

    Forward = Callable[[dict[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]]
    Refit = Callable[..., Any]

# float32 on both sides, summed in another order.
CLOSE = 1e-5
# Several blocks of the prefix cache each, all different.
PROMPTS = [list(range(start, start + 80)) for start in range(3, 120, 15)]
NEW_TOKENS = 150
# Enough that what comes before the sync and after it can both be seen.
BEFORE = 8


@pytest.fixture(autouse=True)
def original_weights(
    worker: GenerationWorker, state: dict[str, torch.Tensor], refit: Refit
) -> Iterator[None]:
    yield
    if worker.served().checksum != state_checksum(state.items()):
        refit(worker, state)


def changed(state: dict[str, torch.Tensor], seed: int = 7) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor + 0.02 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in state.items()
    }


def least_generated(worker: GenerationWorker, requests: int) -> int:
    """Tokens of the request that has fewest; 0 until the engine has all of them."""

    async def ask() -> int:
        def look(core: Any) -> int:
            held = core.scheduler.requests.values()
            return min((it.num_output_tokens for it in held), default=0) * (len(held) == requests)

        found: int = await worker._core.call(look)
        return found

    found: int = worker._loop.run(ask(), CALL_S)
    return found


def switch(values: Sequence[float], old: Sequence[float], new: Sequence[float]) -> int:
    """The token from which on log-probabilities are the new weights', by what they are before."""
    same = [abs(value - other) < CLOSE for value, other in zip(values, old, strict=True)]
    place = same.index(False)
    assert list(values[place:]) == pytest.approx(list(new[place:]), abs=CLOSE)
    assert list(values[:place]) == pytest.approx(list(old[:place]), abs=CLOSE)
    # Not the former weights': one in a hundred may agree by accident.
    assert sum(same[place:]) <= len(same[place:]) // 20
    return place


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_tokens_after_the_sync_are_the_new_weights_and_those_before_it_the_former_ones(
    worker: GenerationWorker,
    state: dict[str, torch.Tensor],
    refit: Refit,
    forward: Forward,
    transport: str,
) -> None:
    new = changed(state)
    sampling = Sampling(temperature=1.0, max_tokens=NEW_TOKENS, seed=3, ignore_eos=True)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.generate, PROMPTS, sampling)
        while least_generated(worker, len(PROMPTS)) < BEFORE:
            assert not running.done()
        ack = refit(worker, new, transport=transport, in_flight="continue")
        assert not running.done()
        completions = running.result(CALL_S)

    assert ack.ok
    assert ack.checksum == state_checksum(new.items()) == worker.served().checksum
    assert worker.health() == ack.weight_version
    places = set()
    for prompt, (ids, values) in zip(PROMPTS, completions, strict=True):
        assert len(ids) == len(values) == NEW_TOKENS
        places.add(switch(values, forward(state, prompt, ids), forward(new, prompt, ids)))
    # The engine switched between two steps, and all requests were in each.
    assert len(places) <= 2
    assert BEFORE <= min(places) <= max(places) < NEW_TOKENS


def test_no_prefix_of_the_former_weights_outlives_the_sync(
    worker: GenerationWorker, state: dict[str, torch.Tensor], refit: Refit, forward: Forward
) -> None:
    new = changed(state, 8)
    long = Sampling(temperature=1.0, max_tokens=NEW_TOKENS, seed=3, ignore_eos=True)
    short = Sampling(max_tokens=12, ignore_eos=True)
    # Cached with the former weights: what is in flight, and what is asked again afterwards.
    worker.generate(PROMPTS, short)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.generate, PROMPTS[:4], long)
        while least_generated(worker, 4) < BEFORE:
            assert not running.done()
        refit(worker, new, in_flight="continue")
        # While the others are still at work, and once more when they have left their blocks.
        for _ in range(2):
            completions = worker.generate(PROMPTS, short)
            for prompt, (ids, values) in zip(PROMPTS, completions, strict=True):
                assert list(values) == pytest.approx(forward(new, prompt, ids), abs=CLOSE)
            running.result(CALL_S)


def test_a_sync_that_loads_nothing_leaves_requests_at_work_on_the_former_weights(
    worker: GenerationWorker, state: dict[str, torch.Tensor], forward: Forward
) -> None:
    served = worker.health()
    sampling = Sampling(temperature=1.0, max_tokens=NEW_TOKENS, seed=3, ignore_eos=True)
    gone = offered(changed(state), in_flight="continue", patience_s=0.2)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.generate, PROMPTS[:2], sampling)
        while least_generated(worker, 2) < BEFORE:
            assert not running.done()
        with pytest.raises(RefitError, match="rank 0 meeting the sender"):
            worker.load_weights(gone)
        completions = running.result(CALL_S)
    assert worker.health() == served
    for prompt, (ids, values) in zip(PROMPTS, completions, strict=False):
        assert list(values) == pytest.approx(forward(state, prompt, ids), abs=CLOSE)
