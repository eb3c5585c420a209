"""Two real engines as Ray actors: started together, refitted together, and missed when they die."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import ray
import torch

from posttrain.checksum import state_checksum
from posttrain.errors import RecipeError, RefitError, WorkerError
from posttrain.generation.group import GenerationGroup
from posttrain.generation.settings import Sampling
from posttrain.refit.acknowledgement import Served, check_acknowledgements
from posttrain.refit.transport import TRANSPORTS
from unit.posttrain.clusters import own_cluster
from unit.posttrain.generation.refitting import make_request, offered, sending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posttrain.generation.settings import EngineSettings

START_S = 300.0
END_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with own_cluster(cpus=2):
        yield


@pytest.fixture(scope="module")
def group(cluster: None, settings: Callable[..., EngineSettings]) -> Iterator[GenerationGroup]:
    assert cluster is None
    engines = GenerationGroup([settings(), settings()], python=Path(sys.executable))
    try:
        engines.wait_ready(START_S)
        yield engines
    finally:
        engines.shutdown()


def test_each_worker_has_a_server_of_its_own_that_answers_alike(
    group: GenerationGroup, chat: Callable[..., dict[str, Any]]
) -> None:
    first, second = (chat(url) for url in group.base_urls)
    assert first["choices"][0]["message"]["content"] == "2 + 2 = \\boxed{4}"
    assert first["choices"] == second["choices"]
    assert group.base_urls[0] != group.base_urls[1]


def test_prompts_are_spread_and_answered_in_their_order(group: GenerationGroup) -> None:
    prompts = [list(range(10, 10 + length)) for length in (5, 9, 7)]
    sampling = Sampling(max_tokens=4, ignore_eos=True)
    together = group.generate(prompts, sampling)
    alone = [group.generate([prompt], sampling)[0] for prompt in prompts]
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]


def test_every_worker_acknowledges_a_refit_with_the_checksum_of_what_it_serves(
    group: GenerationGroup, state: dict[str, torch.Tensor]
) -> None:
    assert {each.checksum for each in group.served().values()} == {state_checksum(state.items())}
    for number, transport in enumerate(TRANSPORTS, 1):
        new = {name: tensor * (1 + 0.1 * number) for name, tensor in state.items()}
        request = make_request(transport=transport, receivers=group.receivers)
        with sending(new, request) as offer:
            acks = group.refit(offer)
        checksum = state_checksum(new.items())
        count = check_acknowledgements(acks, group.names, offer.names, checksum, request.version)
        assert count == 2
        assert group.served() == dict.fromkeys(group.names, Served(request.version, checksum))
        assert group.health() == dict.fromkeys(group.names, request.version)


def test_a_refused_refit_arrives_in_the_words_of_the_worker(
    group: GenerationGroup, state: dict[str, torch.Tensor]
) -> None:
    offer = offered({**state, "ghost": torch.zeros(2)}, receivers=group.receivers)
    with pytest.raises(RefitError, match="ghost is unexpected"):
        group.refit(offer)


def test_a_group_needs_a_place_for_each_worker(settings: Callable[..., EngineSettings]) -> None:
    with pytest.raises(RecipeError, match="1 places"):
        GenerationGroup([settings()] * 2, python=Path(sys.executable), placements=[{}])


def test_a_tensor_parallel_engine_starts_in_a_ray_actor_too(
    cluster: None, settings: Callable[..., EngineSettings], state: dict[str, torch.Tensor]
) -> None:
    assert cluster is None
    engines = GenerationGroup([settings(tensor_parallel=2)], python=Path(sys.executable))
    try:
        engines.wait_ready(START_S)
        assert engines.served() == {"generation-0": Served(0, state_checksum(state.items()))}
    finally:
        engines.shutdown()


def test_a_dead_worker_is_named_and_shutdown_leaves_no_process(group: GenerationGroup) -> None:
    # The last test of this module: it ends the group.
    handles = [group._actors.handle(name, "a live process") for name in group.names]
    pids = ray.get([handle.pid.remote() for handle in handles], timeout=END_S)
    victim = pids[1]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(WorkerError, match="generation-1 died"):
        group.served()
    group.shutdown()
    _, alive = psutil.wait_procs(
        [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=END_S
    )
    assert alive == []
    with pytest.raises(WorkerError, match="was shut down"):
        group.health()
    group.shutdown()
