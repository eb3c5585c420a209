"""What log-probabilities have to mean, for each backend and each way to compute them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.config import load_recipe
from posttrain.errors import RecipeError, StackError
from posttrain.generation.settings import Sampling
from posttrain.sampling import (
    BACKENDS,
    FUSED,
    PATHS,
    PLAIN,
    Distribution,
    ScoringPath,
    Shaping,
    one_a_sample,
    recomputed,
)

ROOT = Path(__file__).parents[3]
VLLM = BACKENDS["vllm"]
UNIT = ScoringPath("unit", any_temperature=False, filters=False, because="its kernel divides none")
shapings = st.builds(
    Shaping,
    temperature=st.one_of(st.just(0.0), st.floats(1e-12, 2.0)),
    top_p=st.floats(0.0, 1.0, exclude_min=True),
    top_k=st.integers(0, 300),
)


@pytest.mark.parametrize(
    ("backend", "temperature", "divisor"),
    [
        *[(name, 0.0, 1.0) for name in BACKENDS],
        *[(name, 1.0, 1.0) for name in BACKENDS],
        *[("vllm", tiny, 0.01) for tiny in (1e-30, 1e-6, 0.005, 0.00999)],
        *[("dynamo", tiny, 0.01) for tiny in (1e-30, 1e-6, 0.005, 0.00999)],
        *[("tensorrt_llm", tiny, tiny) for tiny in (1e-6, 0.005, 0.00999)],
        *[("vllm", warm, warm) for warm in (0.01, 0.6, 1.7, 2.0)],
        *[("tensorrt_llm", warm, warm) for warm in (0.6, 1.7, 5.0)],
    ],
)
def test_logits_are_divided_by_what_the_backend_divides_them_by(
    backend: str, temperature: float, divisor: float
) -> None:
    found = recomputed(Shaping(temperature), BACKENDS[backend])
    assert found == Distribution(divisor)


def test_only_vllm_and_dynamo_declare_that_they_raise_tiny_temperatures() -> None:
    assert {name for name, backend in BACKENDS.items() if backend.coldest} == {"vllm", "dynamo"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_at_temperature_0_nothing_is_scaled_or_filtered(backend: str) -> None:
    shaping = Shaping(temperature=0.0, top_p=0.5, top_k=3)
    assert recomputed(shaping, BACKENDS[backend]) == Distribution(1.0, 1.0, 0)


def test_filters_are_kept_at_every_other_temperature() -> None:
    assert recomputed(Shaping(1e-6, 0.5, 3), VLLM) == Distribution(0.01, 0.5, 3)
    assert recomputed(Shaping(top_k=3), VLLM) == Distribution(1.0, 1.0, 3)


def test_nothing_asked_for_is_the_models_own_distribution() -> None:
    assert Shaping() == Shaping(temperature=1.0, top_p=1.0, top_k=0)
    assert all(recomputed(Shaping(), each) == Distribution() for each in BACKENDS.values())


@given(shapings)
def test_asking_for_what_is_done_already_changes_nothing(shaping: Shaping) -> None:
    drawn_from = recomputed(shaping, VLLM)
    again = Shaping(drawn_from.divisor, drawn_from.top_p, drawn_from.top_k)
    assert recomputed(again, VLLM) == drawn_from


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("temperature", bad) for bad in (-0.1, -1e-12, math.nan, math.inf, -math.inf)],
        *[("top_p", bad) for bad in (0.0, -0.5, 1.0001, math.nan, math.inf)],
        *[("top_k", bad) for bad in (-1, 1.0, True)],
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(name: str, value: float) -> None:
    for kind in (Shaping, Sampling):
        with pytest.raises(RecipeError) as caught:
            kind(**{name: value})
        assert f"sampling with {name}" in caught.value.asked
        assert caught.value.found == repr(value)


@pytest.mark.parametrize("divisor", [0.0, -1.0, math.nan, 1e-40])
def test_logits_are_never_divided_by_what_makes_them_infinite(divisor: float) -> None:
    with pytest.raises(RecipeError, match="sampling with"):
        Distribution(divisor)


def test_a_temperature_that_the_backend_refuses_is_refused_before_it_does() -> None:
    with pytest.raises(RecipeError, match=r"vllm refuses temperatures above 2\n"):
        recomputed(Shaping(2.5), VLLM)


@pytest.mark.parametrize("shaping", [Shaping(0.6), Shaping(top_p=0.9), Shaping(top_k=5)])
def test_a_backend_that_reports_other_log_probs_than_it_draws_from_is_refused(
    shaping: Shaping,
) -> None:
    with pytest.raises(RecipeError, match="megatron reports those of the model's own"):
        recomputed(shaping, BACKENDS["megatron"])


@given(shapings)
def test_a_path_takes_exactly_what_it_declares(shaping: Shaping) -> None:
    drawn_from = recomputed(shaping, VLLM)
    scaled, filtered = drawn_from.divisor != 1, drawn_from.top_p < 1 or drawn_from.top_k > 0
    for path, can in ((PLAIN, True), (FUSED, not filtered), (UNIT, not (scaled or filtered))):
        if can:
            path.check([drawn_from])
        else:
            with pytest.raises(RecipeError):
                path.check([Distribution(), drawn_from])


def test_a_path_that_cannot_says_what_was_asked_and_why() -> None:
    with pytest.raises(RecipeError) as caught:
        FUSED.check([Distribution(0.6, top_k=5)])
    assert "temperature 0.6, top_p 1, top_k 5 by the path 'fused'" in caught.value.asked
    assert "any temperature, and no top_p and top_k: its gradient" in caught.value.found
    with pytest.raises(RecipeError, match="temperature 1 only, and no top_p and top_k: its kernel"):
        UNIT.check([Distribution(0.6)])


def test_the_paths_of_the_stack_are_plain_and_fused() -> None:
    assert list(PATHS) == ["plain", "fused"]


def test_samples_have_one_distribution_together_or_one_each() -> None:
    warm, cold = Distribution(1.5), Distribution(0.5)
    assert one_a_sample(warm, 3) == (warm,) * 3
    assert one_a_sample([warm, cold], 2) == (warm, cold)
    with pytest.raises(StackError, match="2 distributions for 3 samples"):
        one_a_sample([warm, cold], 3)


def drawn_from(*overrides: str, recipe: str = "gym_training.yaml") -> Distribution:
    given = ["run.dir=r", *(f"interpreters.{kind}=p" for kind in ("policy", "generation", "gym"))]
    path = ROOT / "functional" / "recipes" / recipe
    return load_recipe(path, [*given, *overrides]).recipe.generation.drawn_from


def test_a_recipe_that_says_nothing_samples_from_the_models_own_distribution() -> None:
    model = ("model.path=m", "model.revision=r", "data.train=d")
    assert drawn_from(*model, recipe="base.yaml") == Distribution()
    warm = drawn_from(*model, "generation.temperature=0.6", recipe="base.yaml")
    assert warm == Distribution(0.6)


@pytest.mark.parametrize("tiny", ["1e-6", "0.005", "1.0e-30"])
def test_a_recipe_may_ask_for_a_tiny_temperature_and_gets_what_vllm_makes_of_it(tiny: str) -> None:
    assert drawn_from(f"generation.temperature={tiny}") == Distribution(0.01)


def test_a_recipe_whose_path_cannot_filter_is_refused_with_line_and_reason() -> None:
    fused = "policy.logprobs=fused"
    assert drawn_from(fused, "generation.temperature=0.6") == Distribution(0.6)
    for filtered in ("generation.top_k=5", "generation.top_p=0.9"):
        with pytest.raises(RecipeError) as caught:
            drawn_from("generation.temperature=0.6", filtered, fused)
        assert "policy.logprobs: asked for log-probabilities at temperature 0.6" in str(
            caught.value
        )
        assert "no top_p and top_k: its gradient" in str(caught.value)
        assert "found fused (command line)" in str(caught.value)
        # At temperature 0 the engine ignores filters, so there is nothing to follow.
        assert drawn_from(filtered, fused) == Distribution()


def test_recipes_are_checked_without_torch() -> None:
    program = "import posttrain.config, posttrain.sampling, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
