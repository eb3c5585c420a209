"""A model whose head is its embedding: one tensor in the checkpoint, two places in the engine."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from posttrain.checksum import state_checksum
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker
from unit.posttrain.generation.refitting import CALL_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from posttrain.generation.settings import EngineSettings

PROMPT = list(range(40))


@pytest.fixture
def tied(tmp_path: Path, settings: Callable[..., EngineSettings]) -> Path:
    folder = tmp_path / "tied"
    shutil.copytree(settings().model, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(
        json.dumps(config | {"tie_word_embeddings": True}), encoding="utf-8"
    )
    return folder


def test_both_places_of_a_tied_tensor_follow_a_refit(
    tied: Path,
    state: dict[str, torch.Tensor],
    settings: Callable[..., EngineSettings],
    refit: Callable[..., Any],
) -> None:
    own = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    save_file(own, tied / "model.safetensors", {"format": "pt"})
    worker = GenerationWorker("generation-0", deadline_s=CALL_S)
    worker.start(settings(model=str(tied)))
    try:
        assert worker.served().checksum == state_checksum(own.items())
        generator = torch.Generator().manual_seed(3)
        new = {
            name: tensor + 0.02 * torch.randn(tensor.shape, generator=generator)
            for name, tensor in own.items()
        }
        ack = refit(worker, new)
        assert ack.names == tuple(sorted(new))
        assert ack.checksum == state_checksum(new.items()) == worker.served().checksum
        ((ids, values),) = worker.generate([PROMPT], Sampling(max_tokens=8, ignore_eos=True))
    finally:
        worker.shutdown()
    model = AutoModelForCausalLM.from_pretrained(tied, dtype=torch.float32).eval()
    model.load_state_dict(new, strict=False)
    model.tie_weights()
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT, *ids]])).logits[0, len(PROMPT) - 1 : -1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(ids).unsqueeze(1)).squeeze(1)
    assert list(values) == pytest.approx(expected.tolist(), abs=1e-5)
