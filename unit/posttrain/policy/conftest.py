"""Shared parts of the policy's tests: the tiny model, samples from it, and rank processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.model.load import load_model, load_tokenizer
from posttrain.policy.options import PolicyOptions
from posttrain.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transformers import PreTrainedModel


ROOT = Path(__file__).resolve().parents[3]
TINY_LLAMA = ROOT / "fixtures" / "tiny-llama"
DATASET = ROOT / "fixtures" / "gym_math.jsonl"
RANK_PROCESS = Path(__file__).with_name("rank_process.py")
ANSWER_S = 180
PROCESS_END_S = 120


@pytest.fixture(scope="session")
def tiny_llama() -> Path:
    return TINY_LLAMA


@pytest.fixture(scope="session")
def dataset() -> Path:
    return DATASET


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def reference() -> PreTrainedModel:
    """The tiny model in float64, for plain forward passes."""
    return load_model(TINY_LLAMA).double()


@pytest.fixture(scope="session")
def make_sample(reference: PreTrainedModel) -> Callable[[int, str], Sample]:
    """Make the sample that an exact engine would report for an answer to a row."""
    tokenizer = load_tokenizer(TINY_LLAMA)
    rows = [json.loads(line) for line in DATASET.read_text(encoding="utf-8").splitlines()]

    def make(row: int, answer: str, reward: float = 0.0) -> Sample:
        prompt = tokenizer.apply_chat_template(
            rows[row]["responses_create_params"]["input"],
            add_generation_prompt=True,
            return_dict=False,
        )
        completion = tokenizer.encode(answer + "<|end|>", add_special_tokens=False)
        with torch.no_grad():
            logits = reference(torch.tensor([prompt + completion])).logits[0]
        scores = logits[len(prompt) - 1 : -1].log_softmax(-1)
        logprobs = [float(line[token]) for line, token in zip(scores, completion, strict=True)]
        return Sample(
            row, tuple(prompt), tuple(completion), tuple(logprobs), reward, truncated=False
        )

    return make


class RankProcesses:
    """Two processes that play a policy's ranks, session after session."""

    def __init__(self) -> None:
        self._connections = []
        self._processes = []
        for rank in range(2):
            ours, theirs = Pipe()
            command = [sys.executable, str(RANK_PROCESS), str(theirs.fileno()), str(rank)]
            self._processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()]))
            theirs.close()  # so that a rank's death ends the wait for its answer
            self._connections.append(ours)

    def run(
        self, options: PolicyOptions, *calls: tuple[Any, ...], late_s: float = 0.0
    ) -> list[list[Any]]:
        """Make both ranks, let both make the same calls, and return the results by rank.

        The second rank starts `late_s` seconds later.
        """
        for connection in self._connections:
            connection.send((options, calls))
        port = self._answer(0)
        time.sleep(late_s)
        self._connections[1].send(port)
        return [self._answer(rank) for rank in range(2)]

    def _answer(self, rank: int) -> Any:
        assert self._connections[rank].poll(ANSWER_S), f"rank {rank} does not answer"
        return self._connections[rank].recv()

    def close(self) -> None:
        for connection in self._connections:
            connection.send(None)
            connection.close()
        for process in self._processes:
            process.wait(PROCESS_END_S)


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankProcesses]:
    processes = RankProcesses()
    yield processes
    processes.close()


@pytest.fixture
def options() -> PolicyOptions:
    # A great epsilon makes AdamW's step smooth in the gradient, so that rounding stays rounding.
    return PolicyOptions(TINY_LLAMA, learning_rate=1e-3, adam_epsilon=1e-3)
