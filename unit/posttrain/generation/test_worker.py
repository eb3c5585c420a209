"""A real engine on the tiny model: what it serves, before and after a refit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import torch
from safetensors.torch import save

from posttrain.checksum import state_checksum
from posttrain.errors import RefitError, WorkerError
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker
from posttrain.refit.transport import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from posttrain.generation.settings import EngineSettings

    Chat = Callable[..., dict[str, Any]]
    Forward = Callable[[dict[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]]

# float32 on both sides, summed in another order.
CLOSE = 1e-5
# Several blocks of the prefix cache.
LONG = "What is 2 + 2? Put the answer, and only the answer, inside \\boxed{}. " * 2
CALL_S = 60


@pytest.fixture(autouse=True)
def original_weights(
    worker: GenerationWorker, state: dict[str, torch.Tensor], tmp_path: Path
) -> Iterator[None]:
    yield
    path = tmp_path / "original.safetensors"
    publish(state, path)
    worker.load_weights(str(path), list(state), 0)


def logprobs(choice: dict[str, Any]) -> list[float]:
    return [entry["logprob"] for entry in choice["logprobs"]["content"]]


def refit(worker: GenerationWorker, weights: dict[str, torch.Tensor], path: Path) -> str:
    names = publish(weights, path)
    return worker.load_weights(str(path), names, 1).checksum


def changed(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {
        name: tensor + 0.02 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in state.items()
    }


def test_the_answer_over_http_has_prompt_ids_completion_ids_and_their_log_probs(
    worker: GenerationWorker, state: dict[str, torch.Tensor], forward: Forward, chat: Chat
) -> None:
    answer = chat(worker.base_url)
    (choice,) = answer["choices"]
    prompt, completion = answer["prompt_token_ids"], choice["token_ids"]
    tokens = [entry["token"] for entry in choice["logprobs"]["content"]]
    assert choice["message"]["content"] == "2 + 2 = \\boxed{4}"
    assert choice["finish_reason"] == "stop"
    assert tokens == [f"token_id:{token}" for token in completion]
    assert logprobs(choice) == pytest.approx(forward(state, prompt, completion), abs=CLOSE)


def test_the_direct_path_gives_the_same_tokens_and_log_probs_as_http(
    worker: GenerationWorker, chat: Chat
) -> None:
    answer = chat(worker.base_url)
    (choice,) = answer["choices"]
    ((ids, values),) = worker.generate([answer["prompt_token_ids"]], Sampling(max_tokens=24))
    assert list(ids) == choice["token_ids"]
    assert list(values) == pytest.approx(logprobs(choice), abs=CLOSE)


def test_requests_at_the_same_time_answer_as_one_after_another(
    worker: GenerationWorker, chat: Chat
) -> None:
    questions = [f"What is {n} + {n}?" for n in range(12)]
    one_by_one = [chat(worker.base_url, question) for question in questions]
    with ThreadPoolExecutor(len(questions)) as pool:
        together = list(pool.map(lambda question: chat(worker.base_url, question), questions))
    for alone, among in zip(one_by_one, together, strict=True):
        assert among["choices"][0]["token_ids"] == alone["choices"][0]["token_ids"]
        assert logprobs(among["choices"][0]) == pytest.approx(
            logprobs(alone["choices"][0]), abs=CLOSE
        )


def test_log_probs_at_another_temperature_are_of_the_scaled_distribution(
    worker: GenerationWorker, state: dict[str, torch.Tensor], forward: Forward, chat: Chat
) -> None:
    prompt = chat(worker.base_url)["prompt_token_ids"]
    sampling = Sampling(temperature=2.0, max_tokens=8, seed=3, ignore_eos=True)
    ((ids, values),) = worker.generate([prompt], sampling)
    # Dividing the head's weights by the temperature divides the logits by it.
    scaled = {**state, "lm_head.weight": state["lm_head.weight"] / 2.0}
    assert list(values) == pytest.approx(forward(scaled, prompt, ids), abs=CLOSE)


def test_engine_and_tokenizer_are_those_of_the_given_folder_and_no_other(
    worker: GenerationWorker, settings: Callable[..., EngineSettings], chat: Chat
) -> None:
    from transformers import AutoTokenizer

    folder = settings().model
    model = worker._engine.model_config
    assert (model.model, model.tokenizer) == (folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    message = {"role": "user", "content": "What is 2 + 2? \u00e9"}
    expected = tokenizer.apply_chat_template(
        [message], add_generation_prompt=True, return_dict=False
    )
    assert chat(worker.base_url, message["content"])["prompt_token_ids"] == expected


def test_the_checksum_is_read_from_the_live_weights(
    worker: GenerationWorker, state: dict[str, torch.Tensor]
) -> None:
    assert worker.checksum() == state_checksum(state.items())


def test_a_refit_serves_the_new_weights_and_says_so(
    worker: GenerationWorker,
    state: dict[str, torch.Tensor],
    forward: Forward,
    tmp_path: Path,
    chat: Chat,
) -> None:
    new = changed(state)
    path = tmp_path / "new.safetensors"
    publish(new, path)
    ack = worker.load_weights(str(path), list(new), 5)
    assert (ack.worker, ack.ok, ack.weight_version) == ("generation-0", True, 5)
    assert ack.names == tuple(sorted(new))
    assert ack.checksum == state_checksum(new.items()) == worker.checksum()
    assert worker.health() == 5
    answer = chat(worker.base_url)
    (choice,) = answer["choices"]
    expected = forward(new, answer["prompt_token_ids"], choice["token_ids"])
    assert logprobs(choice) == pytest.approx(expected, abs=CLOSE)


def test_a_warm_prefix_cache_does_not_outlive_the_weights(
    worker: GenerationWorker,
    state: dict[str, torch.Tensor],
    forward: Forward,
    tmp_path: Path,
    chat: Chat,
) -> None:
    prompt = chat(worker.base_url, LONG)["prompt_token_ids"]
    assert chat(worker.base_url, LONG)["prompt_token_ids"] == prompt
    new = changed(state)
    refit(worker, new, tmp_path / "new.safetensors")
    ((ids, values),) = worker.generate([prompt], Sampling(max_tokens=8, ignore_eos=True))
    assert list(values) == pytest.approx(forward(new, prompt, ids), abs=CLOSE)


@pytest.mark.parametrize("scale", [0.0, -0.0])
def test_zeros_of_either_sign_survive_a_refit(
    worker: GenerationWorker, state: dict[str, torch.Tensor], scale: float, tmp_path: Path
) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    new = {**state, name: torch.full_like(state[name], scale)}
    assert refit(worker, new, tmp_path / "zeros.safetensors") == state_checksum(new.items())


def broken(state: dict[str, torch.Tensor], kind: str) -> tuple[bytes, str]:
    """A file that is not the model, and the words that must name why."""
    name = "model.layers.1.self_attn.k_proj.weight"
    good = dict(state)
    if kind == "missing":
        del good[name]
        return save(good), f"{name} is missing"
    if kind == "unexpected":
        good["model.layers.9.bias"] = torch.zeros(3)
        return save(good), "model.layers.9.bias is unexpected"
    if kind == "shape":
        good[name] = good[name][:, :-1].contiguous()
        return save(good), f"{name} has shape (64, 63), not (64, 64)"
    if kind == "dtype":
        good[name] = good[name].to(torch.bfloat16)
        return save(good), f"{name} has dtype bfloat16, not float32"
    # The format's writers can't repeat a name, so one of two names is changed in the header.
    other = name.replace("k_proj", "v_proj")
    return save(good).replace(other.encode(), name.encode()), f"{name} is offered 2 times"


@pytest.mark.parametrize("kind", ["missing", "unexpected", "shape", "dtype", "duplicate"])
def test_weights_that_are_not_the_model_are_refused_before_anything_is_loaded(
    worker: GenerationWorker, state: dict[str, torch.Tensor], kind: str, tmp_path: Path, chat: Chat
) -> None:
    data, words = broken(changed(state), kind)
    path = tmp_path / "broken.safetensors"
    path.write_bytes(data)
    with pytest.raises(RefitError) as refusal:
        worker.load_weights(str(path), list(state), 9)
    assert words in str(refusal.value)
    assert "generation-0" in str(refusal.value)
    assert worker.checksum() == state_checksum(state.items())
    assert worker.health() == 0
    assert chat(worker.base_url)["choices"][0]["message"]["content"] == "2 + 2 = \\boxed{4}"


def test_names_that_were_not_announced_are_refused(
    worker: GenerationWorker, state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    path = tmp_path / "all.safetensors"
    names = publish(state, path)
    with pytest.raises(RefitError, match=r"lm_head\.weight was not announced"):
        worker.load_weights(str(path), names[1:], 1)
    with pytest.raises(RefitError, match=r"lm_head\.weight was announced 2 times"):
        worker.load_weights(str(path), [*names, names[0]], 1)
    with pytest.raises(RefitError, match="ghost was announced and is missing"):
        worker.load_weights(str(path), [*names, "ghost"], 1)


def test_a_file_that_is_not_there_is_refused(worker: GenerationWorker, tmp_path: Path) -> None:
    with pytest.raises(RefitError, match="FileNotFoundError"):
        worker.load_weights(str(tmp_path / "none.safetensors"), ["a"], 1)


def test_a_refit_with_requests_in_flight_is_refused(
    worker: GenerationWorker, state: dict[str, torch.Tensor], tmp_path: Path, chat: Chat
) -> None:
    path = tmp_path / "new.safetensors"
    names = publish(state, path)
    prompt = chat(worker.base_url)["prompt_token_ids"]
    many = [prompt] * 32
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.generate, many, Sampling(max_tokens=150, ignore_eos=True))
        while not worker._engine.get_num_unfinished_requests():
            assert not running.done()
        with pytest.raises(RefitError, match="requests in flight"):
            worker.load_weights(str(path), names, 1)
        completions = running.result(CALL_S)
    assert [len(ids) for ids, _ in completions] == [150] * 32


def test_a_prompt_that_is_too_long_is_an_error_of_the_request(
    worker: GenerationWorker, http: Callable[..., Any]
) -> None:
    body = {"model": "policy", "messages": [{"role": "user", "content": "x" * 300}]}
    assert http(f"{worker.base_url}/chat/completions", body)[0] == 400
    assert worker.health() == 0


def test_the_engine_has_no_process_of_its_own(worker: GenerationWorker, chat: Chat) -> None:
    chat(worker.base_url)
    # Python's own resource tracker stays once a test of this process has used multiprocessing.
    children = [child.cmdline() for child in psutil.Process().children(recursive=True)]
    assert [words for words in children if "resource_tracker" not in " ".join(words)] == []


def test_a_port_in_use_is_named_before_the_model_is_loaded(
    worker: GenerationWorker, settings: Callable[..., EngineSettings]
) -> None:
    port = int(worker.base_url.split(":")[2].split("/")[0])
    second = GenerationWorker("generation-1", deadline_s=CALL_S)
    with pytest.raises(WorkerError, match=f"port {port} is in use"):
        second.start(settings(port=port))
    second.shutdown()


def test_a_worker_outside_the_engine_environment_does_not_start(
    monkeypatch: pytest.MonkeyPatch, settings: Callable[..., EngineSettings]
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    with pytest.raises(WorkerError, match="OMP_NUM_THREADS"):
        GenerationWorker("generation-1").start(settings())


def test_completions_keep_the_order_of_their_prompts(worker: GenerationWorker, chat: Chat) -> None:
    prompt = chat(worker.base_url)["prompt_token_ids"]
    prompts = [prompt[-length:] for length in (40, 10, 30, 20)]
    together = worker.generate(prompts, Sampling(max_tokens=6, ignore_eos=True))
    alone = [worker.generate([p], Sampling(max_tokens=6, ignore_eos=True))[0] for p in prompts]
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]
    assert any(first != second for first, second in pairwise(ids for ids, _ in alone))


def test_on_a_cpu_there_is_no_memory_to_hand_over(
    worker: GenerationWorker, state: dict[str, torch.Tensor], chat: Chat
) -> None:
    worker.sleep()
    assert chat(worker.base_url)["choices"][0]["finish_reason"] == "stop"
    worker.wake()
    assert worker.checksum() == state_checksum(state.items())
