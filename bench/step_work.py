"""What every side of bench_step.py does alike: prompts, lengths, optimizer, reward, engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "fixtures" / "tiny-llama"
AGENT_REF = {"type": "responses_api_agents", "name": "math_simple_agent"}
# What the model says to nearly every question, so that verified rewards are 0 and 1 by turns.
ANSWERS = ("4", "7")

RANKS = 2
THREADS = 1
TEMPERATURE = 1.0
# AdamW moves each weight by about so much a step, whatever the gradient: seen in float32, and too
# little to change what the model says within a benchmark.
LEARNING_RATE = 1e-6
BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
MAX_GRAD_NORM = 1.0
CLIP = 0.2
MAX_MODEL_LEN = 256
# Holds every sequence of the larger size, 1 KiB a token.
KV_CACHE_MB = 64
BLOCK_SIZE = 32


@dataclass(frozen=True)
class Size:
    """One step's work: prompts x rollouts of each x new tokens of each."""

    prompts: int
    rollouts: int
    new_tokens: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a text such as ``2x8x32``."""
        return cls(*(int(part) for part in text.split("x")))

    def __str__(self) -> str:
        return f"{self.prompts}x{self.rollouts}x{self.new_tokens}"

    @property
    def sequences(self) -> int:
        """Rollouts of one step."""
        return self.prompts * self.rollouts


def messages(prompts: int) -> list[list[dict[str, str]]]:
    """The chat of each prompt; all are different, and of the same length in tokens."""
    if prompts > 64:
        msg = f"{prompts} prompts; there are 64 of one length"
        raise ValueError(msg)
    pairs = [(2 + number // 8, 2 + number % 8) for number in range(prompts)]
    return [
        [
            {
                "role": "user",
                "content": f"What is {left} + {right}? Put the answer, and only the answer,"
                " inside \\boxed{}.",
            }
        ]
        for left, right in pairs
    ]


def gym_rows(prompts: int) -> list[dict[str, Any]]:
    """The same prompts as rows of a NeMo Gym dataset."""
    return [
        {
            "responses_create_params": {"input": chat},
            "question": chat[0]["content"].partition("?")[0] + "?",
            "expected_answer": ANSWERS[number % len(ANSWERS)],
            "agent_ref": AGENT_REF,
        }
        for number, chat in enumerate(messages(prompts))
    ]


def prompt_ids(tokenizer: Any, prompts: int) -> list[list[int]]:
    """Token ids of each prompt, by the model's own chat template."""
    rendered = [
        tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        for chat in messages(prompts)
    ]
    assert len({len(ids) for ids in rendered}) == 1, "prompts of different lengths"
    return rendered


def reward(completion_ids: Sequence[int]) -> float:
    """The share of even token ids: it costs nothing and differs from rollout to rollout."""
    return sum(token % 2 == 0 for token in completion_ids) / len(completion_ids)


def normalised(rewards: Sequence[float]) -> list[float]:
    """Rewards less their mean, over their standard deviation."""
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in rewards) / len(rewards))
    return [(each - mean) / (deviation + 1e-8) for each in rewards]
