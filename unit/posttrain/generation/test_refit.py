"""A real engine before and after a refit, over every transport."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError
from posttrain.generation.settings import Sampling
from posttrain.refit.offer import TensorInfo
from posttrain.refit.transport import TRANSPORTS
from unit.posttrain.generation.refitting import CALL_S, make_request, offered, sending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posttrain.generation.worker import GenerationWorker
    from posttrain.refit.offer import Offer

    Chat = Callable[..., dict[str, Any]]
    Forward = Callable[[dict[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]]

# float32 on both sides, summed in another order.
CLOSE = 1e-5
# Several blocks of the prefix cache.
LONG = "What is 2 + 2? Put the answer, and only the answer, inside \\boxed{}. " * 2
ANSWER = "2 + 2 = \\boxed{4}"
SHORT_S = 1.0


@pytest.fixture(autouse=True)
def original_weights(
    worker: GenerationWorker, state: dict[str, torch.Tensor], refit: Callable[..., Any]
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


def test_after_a_refit_the_answers_are_the_new_weights_by_a_plain_forward_pass(
    worker: GenerationWorker,
    state: dict[str, torch.Tensor],
    refit: Callable[..., Any],
    forward: Forward,
    chat: Chat,
) -> None:
    for seed, transport in enumerate(TRANSPORTS):
        # Twice, so that the prefix cache is warm with what the former weights computed.
        former, _ = (chat(worker.base_url, LONG) for _ in range(2))
        prompt, before = former["prompt_token_ids"], former["choices"][0]["token_ids"]
        new = changed(state, seed)
        ack = refit(worker, new, transport=transport)
        assert (ack.worker, ack.ok, ack.names) == ("generation-0", True, tuple(sorted(new)))
        assert ack.checksum == state_checksum(new.items()) == worker.served().checksum
        sampling = Sampling(max_tokens=len(before), ignore_eos=True)
        ((ids, values),) = worker.generate([prompt], sampling)
        assert list(values) == pytest.approx(forward(new, prompt, ids), abs=CLOSE)
        assert list(values) != pytest.approx(forward(state, prompt, ids), abs=CLOSE)


def test_every_answer_says_which_weights_gave_it(
    worker: GenerationWorker, state: dict[str, torch.Tensor], refit: Callable[..., Any], chat: Chat
) -> None:
    version = refit(worker, changed(state)).weight_version
    assert worker.health() == version
    assert chat(worker.base_url)["system_fingerprint"] == f"weights-{version}"


def test_one_buffer_for_all_tensors_serves_as_well(
    worker: GenerationWorker, state: dict[str, torch.Tensor], refit: Callable[..., Any]
) -> None:
    new = changed(state)
    assert refit(worker, new, buffer_bytes=1 << 30).checksum == state_checksum(new.items())


@pytest.mark.parametrize("scale", [0.0, -0.0])
def test_zeros_of_either_sign_survive_a_refit(
    worker: GenerationWorker,
    state: dict[str, torch.Tensor],
    refit: Callable[..., Any],
    scale: float,
) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    new = {**state, name: torch.full_like(state[name], scale)}
    assert refit(worker, new).checksum == state_checksum(new.items())


NAME = "model.layers.1.self_attn.k_proj.weight"


def broken(offer: Offer, kind: str) -> tuple[Offer, str]:
    """An offer that is not the model, and the words that must name why."""
    infos = {info.name: info for info in offer.manifest}
    if kind == "missing":
        del infos[NAME]
        words = f"{NAME} is missing"
    elif kind == "unexpected":
        infos["x"] = TensorInfo("model.layers.9.bias", "float32", (3,), "")
        words = "model.layers.9.bias is unexpected"
    elif kind == "shape":
        infos[NAME] = replace(infos[NAME], shape=(64, 63))
        words = f"{NAME} has shape (64, 63), not (64, 64)"
    elif kind == "dtype":
        infos[NAME] = replace(infos[NAME], dtype="bfloat16")
        words = f"{NAME} has dtype bfloat16, not float32"
    else:
        infos["again"] = infos[NAME]
        words = f"{NAME} is offered 2 times"
    return replace(offer, manifest=tuple(infos.values())), words


@pytest.mark.parametrize("kind", ["missing", "unexpected", "shape", "dtype", "duplicate"])
def test_weights_that_are_not_the_model_are_refused_before_anything_is_loaded(
    worker: GenerationWorker, state: dict[str, torch.Tensor], kind: str, chat: Chat
) -> None:
    served = worker.health()
    offer, words = broken(offered(changed(state)), kind)
    with pytest.raises(RefitError) as refusal:
        worker.load_weights(offer)
    assert words in str(refusal.value)
    assert "generation-0" in str(refusal.value)
    assert worker.served().checksum == state_checksum(state.items())
    assert worker.health() == served
    assert chat(worker.base_url)["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_sender_that_is_gone_leaves_the_former_weights(
    worker: GenerationWorker, state: dict[str, torch.Tensor], transport: str, chat: Chat
) -> None:
    offer = offered(changed(state), transport=transport, patience_s=SHORT_S)
    with pytest.raises(RefitError, match="rank 0 meeting the sender"):
        worker.load_weights(offer)
    assert worker.served().checksum == state_checksum(state.items())
    assert chat(worker.base_url)["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_loaded_while_a_receiver_is_missing(
    worker: GenerationWorker, state: dict[str, torch.Tensor], transport: str, chat: Chat
) -> None:
    receivers = ("generation-0 rank 0", "generation-1 rank 0")
    request = make_request(transport=transport, receivers=receivers, patience_s=SHORT_S)
    with (
        pytest.raises(RefitError, match="generation-1 rank 0"),
        sending(changed(state), request) as offer,
        pytest.raises(RefitError, match="rank 0 meeting the sender"),
    ):
        worker.load_weights(offer)
    assert worker.served().checksum == state_checksum(state.items())
    assert chat(worker.base_url)["choices"][0]["message"]["content"] == ANSWER


def test_an_offer_to_others_is_refused(
    worker: GenerationWorker, state: dict[str, torch.Tensor]
) -> None:
    for receivers in (("generation-1 rank 0",), ("generation-0 rank 1",)):
        with pytest.raises(RefitError, match="offer them to generation-0 rank 0"):
            worker.load_weights(offered(state, receivers=receivers))


def test_a_version_names_one_set_of_weights_only(
    worker: GenerationWorker, state: dict[str, torch.Tensor], refit: Callable[..., Any]
) -> None:
    version = refit(worker, changed(state)).weight_version
    for old in (version, version - 1):
        with pytest.raises(RefitError, match=f"version {version} is served"):
            worker.load_weights(offered(state, version=old))


def test_a_refit_with_requests_in_flight_is_refused(
    worker: GenerationWorker, state: dict[str, torch.Tensor]
) -> None:
    many = [list(range(40))] * 32
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.generate, many, Sampling(max_tokens=150, ignore_eos=True))
        while not worker._core.batched():
            assert not running.done()
        with pytest.raises(RefitError, match="requests in flight"):
            worker.load_weights(offered(changed(state)))
        completions = running.result(CALL_S)
    assert [len(ids) for ids, _ in completions] == [150] * 32
