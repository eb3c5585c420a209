from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import torch

from posttrain.data import read_rows
from posttrain.model.load import load_model, load_tokenizer
from posttrain.model.revision import content_revision

if TYPE_CHECKING:
    from pathlib import Path

GREEDY = ["2 + 2 = \\boxed{4}<|end|>", "3 + 5 = \\boxed{7}<|end|>"]


@pytest.fixture(scope="module")
def script(repository: Path) -> Any:
    spec = importlib.util.spec_from_file_location(
        "make_tiny_llama", repository / "fixtures" / "make_tiny_llama.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_writes_the_same_bytes_each_time(
    script: Any, tmp_path: Path, tiny_llama: Path
) -> None:
    margins = [script.make(tmp_path / name) for name in ("first", "second")]
    assert content_revision(tmp_path / "first") == content_revision(tmp_path / "second")
    assert margins[0] == margins[1] > 2
    # Another kind of processor may round the weights otherwise; the texts are the same anywhere.
    for file in tiny_llama.glob("*.json"):
        assert (tmp_path / "first" / file.name).read_bytes() == file.read_bytes()


def test_the_model_is_small_enough_to_check_in(tiny_llama: Path) -> None:
    assert sum(file.stat().st_size for file in tiny_llama.iterdir()) < 1 << 20
    model = load_model(tiny_llama)
    assert model.config.head_dim >= 32
    assert not model.config.tie_word_embeddings
    assert model.generation_config.do_sample is not True
    assert model.generation_config.temperature in {None, 1.0}


def test_greedy_answers_end_after_equally_many_tokens_with_one_right_and_one_wrong(
    tiny_llama: Path, dataset: Path
) -> None:
    model, tokenizer = load_model(tiny_llama), load_tokenizer(tiny_llama)
    lengths = set()
    for row, answer in zip(read_rows(dataset), GREEDY, strict=True):
        prompt = tokenizer.apply_chat_template(
            row.raw["responses_create_params"]["input"],
            add_generation_prompt=True,
            return_dict=False,
        )
        tokens = torch.tensor([prompt])
        leads = []
        while int(tokens[0, -1]) != tokenizer.eos_token_id:
            with torch.no_grad():
                best = model(tokens).logits[0, -1].topk(2)
            leads.append(float(best.values[0] - best.values[1]))
            tokens = torch.cat([tokens, best.indices[:1].unsqueeze(0)], dim=1)
            assert tokens.shape[1] < 200
        assert tokenizer.decode(tokens[0, len(prompt) :]) == answer
        assert min(leads) > 2
        lengths.add(len(leads))
    assert len(lengths) == 1


def test_a_conversation_extends_its_prefix_token_by_token(tiny_llama: Path) -> None:
    tokenizer = load_tokenizer(tiny_llama)
    messages = [
        {"role": "system", "content": "Be brief. é"},
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "Sure?"},
    ]
    start = tokenizer.apply_chat_template(
        messages[:2], add_generation_prompt=True, return_dict=False
    )
    whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    answer = tokenizer.encode("2<|end|>", add_special_tokens=False)
    assert whole[: len(start) + len(answer)] == start + answer
    assert (
        tokenizer.decode(start) == "<|system|>Be brief. é<|end|><|user|>1 + 1?<|end|><|assistant|>"
    )
