"""An engine that dies, or must not serve any more, is reported at once and never hangs a caller."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.errors import RefitError, WorkerError
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker
from posttrain.refit.stream import Packer
from unit.posttrain.generation.refitting import make_request, sending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import torch

    from posttrain.generation.settings import EngineSettings

CALL_S = 60
PROMPT = list(range(40))
FOREVER = Sampling(max_tokens=200, ignore_eos=True)


@pytest.fixture
def mortal(settings: Callable[..., EngineSettings]) -> Iterator[GenerationWorker]:
    worker = GenerationWorker("generation-7", deadline_s=CALL_S)
    worker.start(settings())
    try:
        yield worker
    finally:
        worker.shutdown()


def break_model(worker: GenerationWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model itself fail at the next step, as a kernel's error would."""
    (runner,) = worker._wait(
        worker._core.call(lambda core: [core.model_executor.driver_worker.worker.model_runner]),
        CALL_S,
        "test",
    )

    def fail(*_arguments: object, **_named: object) -> None:
        msg = "the kernel failed"
        raise RuntimeError(msg)

    monkeypatch.setattr(runner.model, "forward", fail)


def test_a_death_while_requests_wait_fails_all_of_them_and_names_the_cause(
    mortal: GenerationWorker,
    http: Callable[..., tuple[int, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = mortal.base_url
    body = {"model": "policy", "messages": [{"role": "user", "content": "2"}], "max_tokens": 200}
    break_model(mortal, monkeypatch)
    with ThreadPoolExecutor(5) as pool:
        direct = pool.submit(mortal.generate, [PROMPT] * 3, FOREVER)
        over_http = [pool.submit(http, f"{url}/chat/completions", body) for _ in range(3)]
        with pytest.raises(WorkerError, match="generation-7"):
            direct.result(CALL_S)
        assert {call.result(CALL_S)[0] for call in over_http} == {500}
    with pytest.raises(WorkerError, match="the kernel failed"):
        mortal.health()
    with pytest.raises(WorkerError, match="the kernel failed"):
        mortal.served()
    assert http(f"{url.removesuffix('/v1')}/health", None)[0] == 503
    assert http(f"{url}/chat/completions", body)[0] == 500


def test_a_sender_that_fails_half_way_ends_the_engine(
    mortal: GenerationWorker,
    state: dict[str, torch.Tensor],
    http: Callable[..., tuple[int, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill, filled = Packer.fill, count(1)

    def fail_in_the_middle(packer: Packer, buffer: torch.Tensor) -> None:
        if next(filled) == len(offer.buffers) // 2:
            msg = "the policy's memory is gone"
            raise OSError(msg)
        fill(packer, buffer)

    monkeypatch.setattr(Packer, "fill", fail_in_the_middle)
    request = make_request(receivers=("generation-7 rank 0",))
    with (
        pytest.raises(OSError, match="the policy's memory is gone"),
        sending({name: tensor * 2 for name, tensor in state.items()}, request) as offer,
        pytest.raises(RefitError, match=r"generation-7\n.*rank 0 at model\.layers\.\d.*buffer"),
    ):
        mortal.load_weights(offer)
    with pytest.raises(WorkerError, match="RefitError"):
        mortal.generate([PROMPT], FOREVER)
    body = {"model": "policy", "messages": [{"role": "user", "content": "2"}]}
    assert http(f"{mortal.base_url}/chat/completions", body)[0] == 500


def test_weights_that_loaded_otherwise_than_sent_are_never_acknowledged(
    mortal: GenerationWorker,
    state: dict[str, torch.Tensor],
    refit: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What a loader does that silently skips the head.
    from posttrain.generation import extension

    honest = extension._recorded

    def skipping(*arguments: Any) -> Iterator[tuple[str, torch.Tensor]]:
        return (pair for pair in honest(*arguments) if pair[0] != "lm_head.weight")

    monkeypatch.setattr(extension, "_recorded", skipping)
    with pytest.raises(RefitError, match=r"rank 0: lm_head\.weight differs from what was sent"):
        refit(mortal, {name: tensor * 2 for name, tensor in state.items()})
    with pytest.raises(WorkerError, match="lm_head"):
        mortal.health()


def test_a_call_that_takes_too_long_is_given_up_at_its_deadline(
    mortal: GenerationWorker,
) -> None:
    blocked, go_on = threading.Event(), threading.Event()

    def block(_core: object) -> None:
        blocked.set()
        go_on.wait(CALL_S)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(mortal._wait, mortal._core.call(block), CALL_S, "test")
        assert blocked.wait(CALL_S)
        mortal.deadline_s = 0.2
        with pytest.raises(WorkerError, match=r"served of generation-7 within 0\.2 s"):
            mortal.served()
        go_on.set()
    mortal.deadline_s = CALL_S
    assert mortal.served() == mortal.served()


def test_after_shutdown_every_call_says_so(mortal: GenerationWorker) -> None:
    mortal.shutdown()
    with pytest.raises(WorkerError, match="was shut down"):
        mortal.generate([PROMPT], FOREVER)
    with pytest.raises(WorkerError, match="was shut down"):
        mortal.health()
    mortal.shutdown()


def test_a_model_of_an_unknown_architecture_is_refused(
    settings: Callable[..., EngineSettings], tmp_path: Path
) -> None:
    import json
    from pathlib import Path as Folder

    from posttrain.errors import ModelError

    config = json.loads((Folder(settings().model) / "config.json").read_text())
    config["architectures"] = ["NobodyForCausalLM"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="NobodyForCausalLM"):
        GenerationWorker("generation-7").start(settings(model=str(tmp_path)))
