"""Shared parts of generation's tests: the tiny model, its plain forward pass, and a live engine."""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from posttrain.generation.settings import EngineSettings, engine_environment

# Engines of these tests live in the test process, so this has to come before torch and vLLM.
os.environ.update(engine_environment())

import torch
from safetensors.torch import load_file

from posttrain.generation.worker import GenerationWorker
from posttrain.refit.offer import engine_receivers
from unit.posttrain.generation.refitting import make_request, sending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posttrain.refit.acknowledgement import Acknowledgement

ROOT = Path(__file__).resolve().parents[3]
TINY_LLAMA = ROOT / "fixtures" / "tiny-llama"
QUESTION = "What is 2 + 2? Put the answer, and only the answer, inside \\boxed{}."
# Long enough for several full blocks of the prefix cache.
BLOCK_SIZE = 32
CALL_S = 60


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        # torch compiles MKL-DNN modules this way when vLLM imports its inductor.
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
        # Gym's request field, still served; the server's loop runs in this process.
        "ignore:max_tokens is deprecated:DeprecationWarning",
        # vLLM leaves its message queues to tensor-parallel ranks to the garbage collector.
        "ignore:Unclosed (context|socket) <zmq:ResourceWarning",
    ):
        config.addinivalue_line("filterwarnings", line)


def make_settings(**changes: Any) -> EngineSettings:
    values = {"model": str(TINY_LLAMA), "max_model_len": 256, "block_size": BLOCK_SIZE}
    return EngineSettings(**{**values, **changes})


@pytest.fixture(scope="session")
def settings() -> Callable[..., EngineSettings]:
    return make_settings


@pytest.fixture(scope="session")
def state() -> dict[str, torch.Tensor]:
    return load_file(TINY_LLAMA / "model.safetensors")


@pytest.fixture(scope="module")
def worker() -> Iterator[GenerationWorker]:
    live = GenerationWorker("generation-0", deadline_s=CALL_S)
    try:
        live.start(make_settings())
        yield live
    finally:
        live.shutdown()


@pytest.fixture(scope="session")
def forward() -> Callable[[Mapping[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]]:
    """Log-probabilities of a completion by transformers' own forward pass in float32."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(TINY_LLAMA, dtype=torch.float32).eval()

    @torch.no_grad()
    def logprobs(
        weights: Mapping[str, torch.Tensor], prompt: Sequence[int], completion: Sequence[int]
    ) -> list[float]:
        model.load_state_dict(dict(weights))
        ids = torch.tensor([[*prompt, *completion]])
        rows = torch.log_softmax(model(ids).logits[0], dim=-1)[len(prompt) - 1 : -1]
        return rows.gather(1, torch.tensor(completion).unsqueeze(1)).squeeze(1).tolist()

    return logprobs


@pytest.fixture(scope="session")
def refit() -> Callable[..., Acknowledgement]:
    """Have a worker serve weights, over a transport and to all of its ranks."""

    def load(
        worker: GenerationWorker,
        state: Mapping[str, torch.Tensor],
        *,
        ranks: int = 1,
        **changes: Any,
    ) -> Acknowledgement:
        receivers = engine_receivers([(worker.name, ranks)])
        with sending(state, make_request(receivers=receivers, **changes)) as offer:
            return worker.load_weights(offer)

    return load


def send(url: str, body: Mapping[str, Any] | None) -> tuple[int, dict[str, Any]]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=CALL_S)
    try:
        if body is None:
            connection.request("GET", parts.path)
        else:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", parts.path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


@pytest.fixture(scope="session")
def http() -> Callable[..., tuple[int, dict[str, Any]]]:
    """The status and JSON of a GET, or of a POST with a body."""
    return send


@pytest.fixture(scope="session")
def chat() -> Callable[..., dict[str, Any]]:
    """Send what Gym's vllm_model server sends for one user message at temperature 0."""

    def ask(base_url: str, content: str = QUESTION) -> dict[str, Any]:
        body = {
            "messages": [{"content": content, "role": "user"}],
            "max_tokens": 24,
            "model": "policy",
            "logprobs": True,
            "top_logprobs": 0,
            "return_tokens_as_token_ids": True,
            "return_token_ids": True,
            "temperature": 0.0,
        }
        code, answer = send(f"{base_url}/chat/completions", body)
        assert code == 200, answer
        return answer

    return ask
