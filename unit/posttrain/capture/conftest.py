"""Shared parts of capture's tests: an engine that captures, and its store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from posttrain.capture.settings import CaptureSettings
from posttrain.generation.settings import EngineSettings, engine_environment

# Engines of these tests live in the test process, so this has to come before torch and vLLM.
os.environ.update(engine_environment())

from posttrain.generation.worker import GenerationWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from posttrain.capture.staging import Store

ROOT = Path(__file__).resolve().parents[3]
TINY_LLAMA = ROOT / "fixtures" / "tiny-llama"
CALL_S = 60
MAX_LEN = 512


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        # torch compiles MKL-DNN modules this way when vLLM imports its inductor.
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
        # Gym's request field, still served; the server's loop runs in this process.
        "ignore:max_tokens is deprecated:DeprecationWarning",
    ):
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenerationWorker]:
    """A live engine that stages into files."""
    capture = CaptureSettings(folder=str(tmp_path_factory.mktemp("staged")), deadline_s=20.0)
    live = GenerationWorker("generation-0", deadline_s=CALL_S)
    settings = EngineSettings(str(TINY_LLAMA), max_model_len=MAX_LEN, capture=capture)
    try:
        live.start(settings)
        yield live
    finally:
        live.shutdown()


@pytest.fixture
def store(worker: GenerationWorker) -> Store:
    """Where the engine stages: its own object, so that a test can make it fail."""
    assert worker._capture is not None
    return worker._capture._store


@pytest.fixture(scope="session")
def state() -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(TINY_LLAMA / "model.safetensors")
