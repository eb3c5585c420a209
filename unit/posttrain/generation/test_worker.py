"""A real engine on the tiny model: what it answers, and to whom."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from vllm.utils.network_utils import get_ip

from posttrain.checksum import state_checksum
from posttrain.errors import WorkerError
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from posttrain.generation.settings import EngineSettings

    Chat = Callable[..., dict[str, Any]]
    Forward = Callable[[dict[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]]

# float32 on both sides, summed in another order.
CLOSE = 1e-5
CALL_S = 60


def logprobs(choice: dict[str, Any]) -> list[float]:
    return [entry["logprob"] for entry in choice["logprobs"]["content"]]


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
    assert worker.served().checksum == state_checksum(state.items())


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


def test_ranks_of_an_engine_meet_on_a_machine_without_a_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr("socket.socket.connect", unreachable)
    assert get_ip() == "127.0.0.1"


def test_completions_keep_the_order_of_their_prompts(worker: GenerationWorker, chat: Chat) -> None:
    prompt = chat(worker.base_url)["prompt_token_ids"]
    prompts = [prompt[-length:] for length in (40, 10, 30, 20)]
    together = worker.generate(prompts, Sampling(max_tokens=6, ignore_eos=True))
    alone = [worker.generate([p], Sampling(max_tokens=6, ignore_eos=True))[0] for p in prompts]
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]
    assert any(first != second for first, second in pairwise(ids for ids, _ in alone))


def test_the_prompts_of_one_call_are_all_computed_from_the_first_step_on(
    worker: GenerationWorker, chat: Chat
) -> None:
    prompt = chat(worker.base_url)["prompt_token_ids"]
    together: list[int] = []

    def watch(core: Any) -> None:
        plain = core.scheduler.schedule

        def schedule(*arguments: Any, **named: Any) -> Any:
            planned = plain(*arguments, **named)
            together.append(len(planned.num_scheduled_tokens))
            return planned

        core.scheduler.schedule = schedule

    def forget(core: Any) -> None:
        del core.scheduler.schedule

    call = worker._core.call
    worker._wait(call(watch), CALL_S, "watch")
    try:
        worker.generate([prompt[-10:]] * 16, Sampling(max_tokens=3, ignore_eos=True))
    finally:
        worker._wait(call(forget), CALL_S, "forget")
    assert [count for count in together if count] == [16, 16, 16]


def test_on_a_cpu_there_is_no_memory_to_hand_over(
    worker: GenerationWorker, state: dict[str, torch.Tensor], chat: Chat
) -> None:
    worker.sleep()
    assert chat(worker.base_url)["choices"][0]["finish_reason"] == "stop"
    worker.wake()
    assert worker.served().checksum == state_checksum(state.items())
