"""The contract that docs/parity.md recommends, held against drifts that nobody may miss."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.contracts.evaluate import evaluate
from exacthead.contracts.load import parse
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

GUIDE = Path(__file__).parents[3] / "docs" / "parity.md"
EXAMPLE = re.search(r"```toml\n(.+?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
ERROR, KL = "train/token_mult_prob_error", "train/generation_kl_k3"
BOUND, GROWTH, DIVERGENCE, MASKED = (
    "generation and policy agree at each step",
    "their disagreement does not grow",
    "nor does the divergence",
    "no sequence is left out",
)


@pytest.fixture
def failed(written: Callable[[str], Path]) -> Callable[..., set[str]]:
    """The checks that fail on a run with these errors and divergences."""
    assert EXAMPLE is not None
    contract = parse(tomllib.loads(EXAMPLE.group(1)), "docs/parity.md")

    def run(errors: list[float], divergences: list[float] | None = None, **more: Any) -> set[str]:
        pairs = zip(errors, divergences or [1e-6] * len(errors), strict=True)
        rows = [
            f'{{"step": {step}, "{ERROR}": {error}, "{KL}": {kl},'
            f' "train/masked_sequences": {more.get("masked", 0)}}}\n'
            for step, (error, kl) in enumerate(pairs, start=1)
        ]
        result = evaluate(contract, written("".join(rows)))
        return {check.name for check in result.of_kind(Kind.FAILED)}

    return run


def test_a_run_that_agrees_passes(failed: Callable[..., set[str]]) -> None:
    assert failed([1.001, 1.0012, 1.0009, 1.0011, 1.001, 1.0012, 1.001]) == set()


def test_a_mismatch_that_grows_below_the_bound_is_seen(failed: Callable[..., set[str]]) -> None:
    slow = [1.00, 1.02, 1.05, 1.07, 1.10, 1.12, 1.15, 1.17]
    assert failed(slow) == {GROWTH}
    assert failed([1.001] * 8, [0.0005 * step for step in range(8)]) == {DIVERGENCE}


def test_a_spike_is_the_bounds_business_and_no_trend(failed: Callable[..., set[str]]) -> None:
    assert failed([1.001] * 10 + [1.3]) == {BOUND}


def test_masking_does_not_pass_unseen(failed: Callable[..., set[str]]) -> None:
    assert failed([1.001] * 4, masked=1) == {MASKED}
