"""What the model's own files say about rollouts: its prompts, its vocabulary and its end tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from posttrain.errors import DataError, ModelError
from posttrain.rollout.checks import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.data import Row


def read_limits(model: Path, max_new_tokens: int) -> Limits:
    """The limits of the model in the folder ``model``.

    Raises:
        ModelError: its configuration has no vocabulary size or no end-of-sequence token.
    """
    config = _json(model / "config.json")
    generation = _json(model / "generation_config.json")
    vocabulary = config.get("vocab_size")
    ends = generation.get("eos_token_id", config.get("eos_token_id"))
    if not isinstance(vocabulary, int) or ends is None:
        raise ModelError(
            f"vocabulary and end-of-sequence tokens of {model}",
            f"vocab_size {vocabulary!r}, eos_token_id {ends!r}",
            "give a model whose config.json and generation_config.json have them",
        )
    several = ends if isinstance(ends, list) else [ends]
    return Limits(vocabulary, frozenset(several), max_new_tokens)


def render_prompts(model: Path, rows: Sequence[Row]) -> dict[int, tuple[int, ...]]:
    """Each row's prompt as the model's tokenizer and chat template make it, by the row's index.

    Raises:
        DataError: a row's input is no list of messages with a text each.
        ModelError: the model has no tokenizer.json.
    """
    # Unlike the automatic choice of a class, this one does not import torch.
    from transformers import PreTrainedTokenizerFast

    if not (model / "tokenizer.json").exists():
        raise ModelError(
            f"prompts as the tokenizer of {model} renders them",
            "no tokenizer.json in it",
            "give a model that has one",
        )
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    return {
        row.index: tuple(
            tokenizer.apply_chat_template(
                _messages(row), add_generation_prompt=True, tokenize=True, return_dict=False
            )
        )
        for row in rows
    }


def _messages(row: Row) -> list[dict[str, str]]:
    said = row.raw["responses_create_params"]["input"]
    messages = said if isinstance(said, list) else [{"role": "user", "content": said}]
    for message in messages:
        whole = isinstance(message, dict) and {"role", "content"} <= set(message)
        if not whole or not isinstance(message["content"], str):
            raise DataError(
                f"row {row.index}: messages with a role and a text",
                json.dumps(message),
                'give {"role": "user", "content": text}',
            )
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
