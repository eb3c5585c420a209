"""One engine over two tensor-parallel ranks, whose processes hold halves of the weights."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
import pytest

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError, WorkerError
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker
from posttrain.refit.transport import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import torch

    from posttrain.generation.settings import EngineSettings

CALL_S = 120
PROMPT = list(range(40))


@pytest.fixture(scope="module")
def pair(settings: Callable[..., EngineSettings]) -> Iterator[GenerationWorker]:
    worker = GenerationWorker("generation-0", deadline_s=CALL_S)
    worker.start(settings(tensor_parallel=2))
    try:
        yield worker
    finally:
        worker.shutdown()


def test_the_checksum_of_both_ranks_together_is_that_of_the_whole_model(
    pair: GenerationWorker, state: dict[str, torch.Tensor]
) -> None:
    assert pair.checksum() == state_checksum(state.items())


def test_every_rank_proves_its_part_of_a_refit(
    pair: GenerationWorker,
    state: dict[str, torch.Tensor],
    forward: Callable[[Mapping[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]],
    tmp_path: Path,
) -> None:
    new = {name: tensor * 1.1 for name, tensor in state.items()}
    path = tmp_path / "weights.safetensors"
    ack = pair.load_weights(str(path), publish(new, path), 1)
    assert ack.checksum == state_checksum(new.items())
    assert ack.names == tuple(sorted(new))
    assert pair.checksum() == ack.checksum
    ((ids, values),) = pair.generate([PROMPT], Sampling(max_tokens=8, ignore_eos=True))
    assert list(values) == pytest.approx(forward(new, PROMPT, ids), abs=1e-5)


def test_a_refusal_names_the_tensor(
    pair: GenerationWorker, state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    path = tmp_path / "weights.safetensors"
    names = publish({**state, "lm_head.weight": state["lm_head.weight"][:-1].clone()}, path)
    with pytest.raises(RefitError, match=r"lm_head\.weight has shape \(260, 64\)"):
        pair.load_weights(str(path), names, 2)


def test_a_rank_that_dies_ends_the_engine_and_is_reported(pair: GenerationWorker) -> None:
    # The last test of this module: it ends the engine.
    ranks = [p for p in psutil.Process().children() if "Worker_TP" in p.name()]
    assert len(ranks) == 2
    ranks[1].kill()
    end = time.monotonic() + CALL_S
    while pair._core.cause is None and time.monotonic() < end:
        time.sleep(0.1)
    with pytest.raises(WorkerError, match="a tensor-parallel rank's process ended"):
        pair.generate([PROMPT], Sampling())
    pair.shutdown()
    assert not any(process.is_running() for process in ranks)
