"""A prefix cache that outlives its weights: no single step shows it, the trend does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from exacthead.contracts.evaluate import evaluate
from exacthead.contracts.load import parse
from exacthead.verdict import Kind
from posttrain.generation.settings import Sampling
from posttrain.policy.parity import Parity, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posttrain.generation.worker import GenerationWorker

    Forward = Callable[[dict[str, torch.Tensor], Sequence[int], Sequence[int]], list[float]]

GUIDE = Path(__file__).parents[3] / "docs" / "parity.md"
STEPS = 9
# How far every weight moves a step, in deviations of 1; the weights' own is about 0.05.
MOVE = 0.0008
# Several blocks of the prefix cache, each.
PROMPTS = [list(range(start, start + 120)) for start in range(3, 123, 20)]


def verdicts(figures: list[Parity], folder: Path) -> dict[str, Kind]:
    """The guide's own contract, held against a run of these steps."""
    path = folder / "metrics.jsonl"
    rows = [
        {"step": step, "train/masked_sequences": 0}
        | {f"train/{name}": value for name, value in parity.metrics().items()}
        for step, parity in enumerate(figures, start=1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    example = re.search(r"```toml\n(.+?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    contract = parse(tomllib.loads(example.group(1)), "docs/parity.md")
    return {check.name: check.verdict.kind for check in evaluate(contract, path).checks}


@pytest.fixture
def run(
    worker: GenerationWorker,
    state: dict[str, torch.Tensor],
    refit: Callable[..., Any],
    forward: Forward,
) -> Callable[[], list[Parity]]:
    """Steps of a run whose weights move a little each time, in one direction."""
    generator = torch.Generator().manual_seed(7)
    direction = {
        name: torch.randn(tensor.shape, generator=generator) for name, tensor in state.items()
    }

    def steps() -> list[Parity]:
        figures = []
        for step in range(STEPS):
            weights = {
                name: tensor + MOVE * step * direction[name] for name, tensor in state.items()
            }
            refit(worker, weights)
            sampling = Sampling(max_tokens=24, seed=step, temperature=1.0, ignore_eos=True)
            answers = worker.generate(PROMPTS, sampling)
            recomputed = [
                forward(weights, prompt, ids)
                for prompt, (ids, _) in zip(PROMPTS, answers, strict=True)
            ]
            figures.append(measure([values for _, values in answers], recomputed))
        return figures

    return steps


def test_a_stale_prefix_cache_is_within_the_bound_at_each_step_and_seen_by_the_trend(
    run: Callable[[], list[Parity]],
    worker: GenerationWorker,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    async def forgets_to_forget(*_: Any, **__: Any) -> bool:
        return True

    fresh = run()
    worker.reset_prefix_cache()
    with monkeypatch.context() as patch:
        patch.setattr(worker._core, "reset_prefix_cache_async", forgets_to_forget)
        stale = run()
    worker.reset_prefix_cache()
    assert verdicts(stale, tmp_path) == {
        "generation and policy agree at each step": Kind.PASSED,
        "their disagreement does not grow": Kind.FAILED,
        "nor does the divergence": Kind.FAILED,
        "no sequence is left out": Kind.PASSED,
    }
    assert set(verdicts(fresh, tmp_path).values()) == {Kind.PASSED}
