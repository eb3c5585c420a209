"""Recipes that say how rewards become advantages: what a kind would ignore is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from posttrain.config import load_recipe
from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from posttrain.config.schema import Recipe

ROOT = Path(__file__).parents[3]
GIVEN = ("run.dir=x", *(f"interpreters.{kind}=x" for kind in ("policy", "generation", "gym")))
GRPO = ("advantages.kind=grpo", "rollouts.per_prompt=4")
BASELINE = ("advantages.kind=reinforce_plus_plus_baseline", "rollouts.per_prompt=2")
NO_STD = ("advantages.normalise_std=false", "advantages.epsilon=null")
KL = ("advantages.kl_coefficient=0.01", "advantages.kl_estimator=k1")


def load(*overrides: str) -> Recipe:
    path = ROOT / "functional" / "recipes" / "gym_training.yaml"
    return load_recipe(path, [*GIVEN, *overrides]).recipe


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("rollouts.per_prompt=4",),
        BASELINE,
        GRPO,
        (*GRPO, "advantages.leave_one_out=true"),
        (*GRPO, *NO_STD),
        (*GRPO, *NO_STD, "advantages.leave_one_out=true"),
        KL,
        (*BASELINE, *KL),
        (*KL, "generation.temperature=1.0"),
        ("parity.mask_above=1.5",),
    ],
)
def test_what_every_kind_honours_is_taken(overrides: tuple[str, ...]) -> None:
    own = load(*overrides).advantages
    assert (own.epsilon is None) == (not own.normalise_std)
    assert (own.kl_estimator is None) == (own.kl_coefficient == 0)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            ("advantages.leave_one_out=true",),
            (
                "advantages.leave_one_out: reinforce_plus_plus would ignore it; honoured by"
                " grpo; give false; found true (command line)"
            ),
        ),
        (
            (*BASELINE, "advantages.leave_one_out=true"),
            "advantages.leave_one_out: reinforce_plus_plus_baseline would ignore it",
        ),
        (
            ("advantages.normalise_std=false", "advantages.epsilon=null"),
            (
                "advantages.normalise_std: reinforce_plus_plus would ignore it; honoured by"
                " grpo; give true; found false (command line)"
            ),
        ),
        (
            (*GRPO, *KL),
            (
                "advantages.kl_coefficient: grpo would ignore it; honoured by"
                " reinforce_plus_plus and reinforce_plus_plus_baseline; give 0.0; found 0.01"
                " (command line)"
            ),
        ),
        (
            (*GRPO, "advantages.normalise_std=false"),
            (
                "advantages.epsilon: normalise_std false would ignore it; honoured by"
                " normalise_std true; give null; found 1.0e-08"
            ),
        ),
        (
            ("advantages.epsilon=null",),
            "advantages.epsilon: a deviation divides; give a number; found null (command line)",
        ),
        (
            ("advantages.kl_estimator=k3",),
            (
                "advantages.kl_estimator: kl_coefficient 0 would ignore it; honoured by"
                " kl_coefficient above 0; give null; found k3 (command line)"
            ),
        ),
        (
            ("advantages.kl_coefficient=0.01",),
            (
                "advantages.kl_estimator: a divergence is to be estimated; give k1 (as"
                " published), k2 or k3; found null"
            ),
        ),
        (
            ("advantages.kind=grpo",),
            (
                "rollouts.per_prompt: grpo compares the rollouts of one prompt, and a single"
                " one would always have the advantage 0; give at least 2; found 1"
            ),
        ),
        (BASELINE[:1], "rollouts.per_prompt: reinforce_plus_plus_baseline compares the rollouts"),
        (
            (*KL, "generation.temperature=1.0", "generation.top_p=0.9"),
            "advantages.kl_coefficient: top_p and top_k leave the reference without tokens",
        ),
        (("advantages.kl_coefficient=-0.1",), "advantages.kl_coefficient: takes number, at least"),
        (("parity.mask_above=1.0",), "parity.mask_above: takes number, above 1 or `null`"),
    ],
)
def test_what_a_kind_would_ignore_or_could_not_do_is_refused_by_name(
    overrides: tuple[str, ...], words: str
) -> None:
    with pytest.raises(RecipeError) as refusal:
        load(*overrides)
    assert words in refusal.value.found
