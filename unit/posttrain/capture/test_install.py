"""A worker that cannot capture does not start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from nemo_gym.token_id_capture.staging import CaptureAdapter, StagingSink, StagingSource

from posttrain.capture.errors import CaptureSetupError
from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging.files import FileStore
from posttrain.capture.worker.adapter import ChatAdapter
from posttrain.capture.worker.install import Capture, check_golden_vectors, closing_tokens
from posttrain.generation.settings import EngineSettings
from posttrain.generation.worker import GenerationWorker
from unit.posttrain.capture.conftest import TINY_LLAMA

if TYPE_CHECKING:
    from pathlib import Path


def test_golden_vectors_that_differ_refuse_the_worker_before_its_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import nemo_gym.token_id_capture.staging.conformance as published

    check_golden_vectors()
    vectors = published.load_golden_vectors()
    monkeypatch.setattr(
        published, "load_golden_vectors", lambda: vectors | {"extras_digest": "0" * 64}
    )
    worker = GenerationWorker("generation-0")
    capture = CaptureSettings(folder=str(tmp_path / "staged"))
    with pytest.raises(CaptureSetupError, match="golden vectors") as caught:
        worker.start(EngineSettings(str(TINY_LLAMA), capture=capture))
    assert "extras digest mismatch: 032024e8" in caught.value.found
    assert not (tmp_path / "staged").exists()
    assert worker._engine is None


def test_a_place_that_cannot_be_reached_refuses_the_worker(tmp_path: Path) -> None:
    capture = CaptureSettings(database=str(tmp_path / "missing" / "file"))
    with pytest.raises(CaptureSetupError, match="a database of staged calls"):
        GenerationWorker("generation-0").start(EngineSettings(str(TINY_LLAMA), capture=capture))


def test_a_capture_that_is_closed_before_it_was_installed(tmp_path: Path) -> None:
    capture = Capture(CaptureSettings(folder=str(tmp_path)))
    capture.close()


def chat(config: Any, generation: Any, tokenizer: Any) -> Any:
    return SimpleNamespace(
        model_config=SimpleNamespace(
            model="some/model",
            hf_config=SimpleNamespace(eos_token_id=config),
            try_get_generation_config=lambda: {"eos_token_id": generation} if generation else {},
        ),
        renderer=SimpleNamespace(get_tokenizer=lambda: SimpleNamespace(eos_token_id=tokenizer)),
    )


def test_every_token_that_ends_a_message_is_known() -> None:
    assert closing_tokens(chat(1, None, None)) == {1}
    assert closing_tokens(chat([1, 2], [2, 3], 4)) == {1, 2, 3, 4}
    assert closing_tokens(chat(0, None, None)) == {0}
    with pytest.raises(CaptureSetupError, match="some/model"):
        closing_tokens(chat(None, None, None))


def test_ours_are_gyms_protocols(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert isinstance(store, StagingSink)
    assert isinstance(store, StagingSource)
    adapter: CaptureAdapter = ChatAdapter()
    payload = {"model": "m", "kv_transfer_params": {"prompt_token_ids": [8, 9]}}
    assert adapter.enter_prefix(payload, [1, 2]) == {
        "model": "m",
        "kv_transfer_params": {"prompt_token_ids": [1, 2, 8, 9]},
    }
    assert payload["kv_transfer_params"] == {"prompt_token_ids": [8, 9]}
