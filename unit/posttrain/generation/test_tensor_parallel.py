"""One engine over two tensor-parallel ranks, whose processes hold halves of the weights."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import psutil
import pytest

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError, WorkerError
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker
from posttrain.refit.stream import Packer
from posttrain.refit.transport import TRANSPORTS
from unit.posttrain.generation.refitting import make_request, offered, sending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch

    from posttrain.generation.settings import EngineSettings
    from posttrain.refit.acknowledgement import Acknowledgement

CALL_S = 120
PROMPT = list(range(40))
BOTH = ("generation-0 rank 0", "generation-0 rank 1")
# The buffer before which a rank is killed.
DEADLY = 5


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
    assert pair.served().checksum == state_checksum(state.items())


def test_every_rank_proves_its_part_of_a_refit_over_every_transport(
    pair: GenerationWorker,
    state: dict[str, torch.Tensor],
    refit: Callable[..., Acknowledgement],
    forward: Callable[[Mapping[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]],
) -> None:
    sampling = Sampling(max_tokens=8, ignore_eos=True)
    for number, transport in enumerate(TRANSPORTS, 1):
        # Twice, so that the prefix cache is warm with what the former weights computed.
        assert pair.generate([PROMPT], sampling) == pair.generate([PROMPT], sampling)
        new = {name: tensor * (1 + 0.05 * number) for name, tensor in state.items()}
        ack = refit(pair, new, ranks=2, transport=transport)
        assert ack.checksum == state_checksum(new.items())
        assert ack.names == tuple(sorted(new))
        assert pair.served().checksum == ack.checksum
        assert pair.health() == ack.weight_version
        ((ids, values),) = pair.generate([PROMPT], sampling)
        assert list(values) == pytest.approx(forward(new, PROMPT, ids), abs=1e-5)


def test_a_refusal_names_the_tensor(pair: GenerationWorker, state: dict[str, torch.Tensor]) -> None:
    cut = {**state, "lm_head.weight": state["lm_head.weight"][:-1].clone()}
    offer = offered(cut, receivers=BOTH)
    with pytest.raises(RefitError, match=r"lm_head\.weight has shape \(260, 64\)"):
        pair.load_weights(offer)


def test_one_rank_alone_is_no_receiver(
    pair: GenerationWorker, state: dict[str, torch.Tensor]
) -> None:
    with pytest.raises(RefitError, match="to generation-0 rank 0, generation-0 rank 1"):
        pair.load_weights(offered(state, receivers=BOTH[:1]))


def test_a_rank_that_dies_while_weights_arrive_ends_engine_and_sender(
    pair: GenerationWorker, state: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last test of this module: it ends the engine.
    ranks = [p for p in psutil.Process().children() if "Worker_TP" in p.name()]
    assert len(ranks) == 2
    fill, filled = Packer.fill, count(1)

    def kill_then_fill(packer: Packer, buffer: torch.Tensor) -> None:
        if next(filled) == DEADLY:
            ranks[1].kill()
            ranks[1].wait(CALL_S)
        fill(packer, buffer)

    monkeypatch.setattr(Packer, "fill", kill_then_fill)
    with (
        pytest.raises(RefitError, match="generation-0 rank 1 taking buffer"),
        sending(state, make_request(receivers=BOTH)) as offer,
        pytest.raises((RefitError, WorkerError), match="generation-0"),
    ):
        pair.load_weights(offer)
    with pytest.raises(WorkerError, match="generation-0"):
        pair.generate([PROMPT], Sampling())
    pair.shutdown()
    assert not any(process.is_running() for process in ranks)
