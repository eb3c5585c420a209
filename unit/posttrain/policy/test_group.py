from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import ray

from posttrain.checkpoint.manifest import content_of
from posttrain.checksum import state_checksum
from posttrain.errors import ModelError, RecipeError, WorkerError
from posttrain.policy.group import PolicyGroup
from posttrain.policy.options import PolicyOptions
from posttrain.refit.offer import Request
from posttrain.refit.stream import Arrival
from posttrain.sampling import Distribution
from unit.posttrain.clusters import own_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from posttrain.sample import Sample


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stacks")


@pytest.fixture(scope="module", autouse=True)
def cluster(stacks: Path) -> Iterator[None]:
    with own_cluster(cpus=2, EXACTHEAD_STACKS_DIR=str(stacks)):
        yield


@pytest.fixture
def make_group(options: PolicyOptions) -> Iterator[Callable[..., PolicyGroup]]:
    groups = []

    def make(*, reference: bool = False, **arguments: Any) -> PolicyGroup:
        own = dataclasses.replace(options, reference=reference)
        group = PolicyGroup(own, **{"python": sys.executable, **arguments})
        groups.append(group)
        return group

    yield make
    for group in groups:
        group.shutdown()


def pid_of_the_second_rank(group: PolicyGroup) -> int:
    handle = group._actors.handle("policy rank 1", "a live process")
    pid: int = ray.get(handle.pid.remote(), timeout=60)
    return pid


def test_a_group_recomputes_trains_and_publishes_then_reports_a_rank_that_dies(
    make_group: Callable[..., PolicyGroup],
    make_sample: Callable[..., Sample],
    tmp_path: Path,
) -> None:
    samples = [make_sample(0, "2 + 2 = \\boxed{4}"), make_sample(1, "3 + 5 = \\boxed{7}")]
    group = make_group(reference=True)
    group.wait_ready()
    recomputed = group.logprobs(samples, Distribution())
    for values, sample in zip(recomputed, samples, strict=True):
        assert values == pytest.approx(sample.logprobs, abs=2e-6)
    before = group.checksum()
    assert group.reference_logprobs(samples, Distribution()) == recomputed
    advantages = [
        [sign] * len(values) for sign, values in zip((1.0, -1.0), recomputed, strict=True)
    ]
    step = group.train_step(samples, advantages, recomputed, Distribution())
    assert step["optimizer_steps"] == 1
    assert step["grad_norm"] > 0
    after = group.checksum()
    assert after != before
    offer = group.offer_weights(Request("shared_memory", 1, ("this test",), buffer_bytes=100_000))
    assert offer.checksum == after == group.checksum_since_offer()
    with group.sending(), offer.link.receiving(offer, 0) as buffers:
        state = {info.name: tensor for info, tensor in Arrival(offer.manifest, buffers).tensors()}
    assert len(offer.buffers) > 2
    assert state_checksum(state.items()) == after
    saved = group.save_checkpoint(tmp_path)
    assert saved.files == {path.name: content_of(path) for path in tmp_path.iterdir()}
    group.train_step(samples, advantages, recomputed, Distribution())
    assert group.checksum_since_offer() == group.checksum() != after
    assert group.load_checkpoint(tmp_path) == 1
    assert group.checksum() == after

    pid = pid_of_the_second_rank(group)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="rank 1 died"):
        group.checksum()
    with pytest.raises(WorkerError, match="rank 1 died"):
        group.logprobs(samples, Distribution())


def test_a_rank_that_hangs_is_named_after_the_deadline_with_its_stack(
    make_group: Callable[..., PolicyGroup], stacks: Path
) -> None:
    group = make_group(call_timeout_s=5)
    group.wait_ready()
    pid = pid_of_the_second_rank(group)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(WorkerError, match=r"checksum of .*policy rank 1\n.*no answer in 5 s"):
            group.checksum()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert any("get_model_state_dict" in file.read_text() for file in stacks.iterdir())


def test_a_model_that_cannot_be_loaded_is_reported_in_the_stacks_words(
    tiny_llama: Path, tmp_path: Path
) -> None:
    for file in tiny_llama.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = (tmp_path / "config.json").read_text(encoding="utf-8")
    wrong = config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    (tmp_path / "config.json").write_text(wrong, encoding="utf-8")
    group = PolicyGroup(PolicyOptions(tmp_path), python=sys.executable)
    with pytest.raises(ModelError, match="missing_keys"):
        group.wait_ready()
    group.shutdown()


def test_places_and_ranks_must_be_equally_many(make_group: Callable[..., PolicyGroup]) -> None:
    with pytest.raises(RecipeError, match="1 places"):
        make_group(placements=[{"num_cpus": 1}])


def test_a_group_that_was_shut_down_says_so(make_group: Callable[..., PolicyGroup]) -> None:
    group = make_group()
    group.shutdown()
    with pytest.raises(WorkerError, match="shut down"):
        group.checksum()


def test_the_drivers_modules_do_not_import_torch(repository: Path) -> None:
    program = (
        "import posttrain.data, posttrain.model.revision, posttrain.policy.group\n"
        "import posttrain.policy.options, posttrain.advantages, posttrain.policy.parity\n"
        "import posttrain.controller.synchronous, posttrain.starting, posttrain.train\n"
        "import sys; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=repository)
