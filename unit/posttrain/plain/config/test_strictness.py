"""What is no recipe, and values that make no sense, are refused with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from posttrain.config import load_recipe
from posttrain.config.training import TrainRecipe
from unit.posttrain.plain.config.recipes import (
    GIVEN,
    GYM_TRAINING,
    SMALL,
    load_small,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sede: 2\n", "sede: unknown key; did you mean 'seed'? ({path}:5)"),
        ("lr: 2\n", "lr: unknown key; did you mean 'inner.lr'? ({path}:5)"),
        ("iner: {x: 1}\n", "iner.x: unknown key; did you mean 'inner'? ({path}:5)"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one_and_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path, main=SMALL + text)
    assert message.format(path=path) in refused(path)


def test_an_unknown_key_of_a_parent_is_refused_there(tmp_path: Path) -> None:
    path = write(tmp_path, base=SMALL + "sede: 2\n", main="defaults: base.yaml\n")
    assert f"sede: unknown key; did you mean 'seed'? ({tmp_path}/base.yaml:5)" in refused(path)


def test_all_unknown_keys_are_told_at_once(tmp_path: Path) -> None:
    message = refused(write(tmp_path, main=SMALL + "sede: 2\n"), "inner.lrr=1", "zzz=1")
    assert "sede: unknown key" in message
    assert "inner.lrr: unknown key; did you mean 'lr'? (command line)" in message
    assert "zzz: unknown key; known: inner, label, on, seed (command line)" in message


def test_a_value_for_a_section_and_a_section_for_a_value_are_refused(tmp_path: Path) -> None:
    message = refused(write(tmp_path, main=SMALL), "inner=3", "seed={x: 1}")
    assert "inner: a value where a section is expected" in message
    assert "seed.x: unknown key; 'seed' is a value, not a section" in message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed='1'", "seed: takes whole number; found '1'"),
        ("seed=true", "seed: takes whole number; found true"),
        ("seed=1.0", "seed: takes whole number; found 1.0"),
        ("seed=", "seed: takes whole number; found null"),
        ("on=1", "on: takes `true` or `false`; found 1"),
        ("on=yes", "on: takes `true` or `false`; found yes"),
        ("inner.lr='0.1'", "inner.lr: takes number; found '0.1'"),
        ("inner.lr=true", "inner.lr: takes number; found true"),
        ("inner.lr=.nan", "inner.lr: takes number; found .nan"),
        ("inner.lr=.inf", "inner.lr: takes number; found .inf"),
        ("label=7", "label: takes text; found 7 (quote it)"),
        ("inner.names=a", "inner.names: takes list: any number of (text); found a"),
        ("inner.names=[a, 1]", "inner.names.1: takes list: any number of (text); found [a, 1]"),
    ],
)
def test_a_value_of_another_type_is_refused(tmp_path: Path, override: str, message: str) -> None:
    assert f"{message} (command line)" in refused(write(tmp_path, main=SMALL), override)


def test_a_whole_number_is_a_number(tmp_path: Path) -> None:
    assert load_small(write(tmp_path, main=SMALL), "inner.lr=2").inner.lr == 2.0


def test_a_key_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path, main="seed: 1\ninner:\n  lr: 1\n  names: []\n  lr: 2\n")
    message = refused(path)
    assert f"'inner.lr' at {path}:5" in message
    assert f"already at {path}:3" in message


def test_a_section_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, main="inner: {lr: 1}\nseed: 1\ninner: {names: []}\n")
    assert f"'inner' at {path}:3" in refused(path)


def test_a_key_and_a_section_of_the_same_name_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, main="inner: 3\ninner: {names: []}\n")
    assert f"already at {path}:1" in refused(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("seed: [1,\n", "main.yaml:2"),
        ("a: 1\n b: 2\n", "main.yaml:2"),
        ("inner.lr: 1\n", "'inner.lr', which is no plain name"),
        ("3: 1\n", "'3', which is no plain name"),
        ("? [a]\n: 1\n", "no plain name"),
        ("", "no sections"),
        ("# nothing\n", "no sections"),
        ("- 1\n", "a value where sections belong"),
        ("text\n", "a value where sections belong"),
        ("a: 1\n---\nb: 1\n", "main.yaml:2"),
        ("seed: &x 1\nlabel: *x\n", "an alias; use ${section.key}"),
        ("inner: &x {lr: *x}\n", "an alias; use ${section.key}"),
        ("base: {a: 1}\n<<: {seed: 1}\n", "'<<', which is no plain name"),
        ("seed: !!python/object:os.system x\n", "could not determine a constructor"),
        ("seed: !!int x\n", "invalid literal"),
        ("seed: " + "1" * 5000 + "\n", "main.yaml:1"),
        ("seed: " + "[" * 5000 + "\n", "recursion"),
        ("label: \x07\n", "special characters are not allowed"),
    ],
)
def test_text_that_is_no_recipe_is_refused_with_its_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    assert reason in refused(write(tmp_path, main=text))


def test_a_recipe_is_frozen(tmp_path: Path) -> None:
    recipe = load_small(write(tmp_path, main=SMALL))
    with pytest.raises(ValueError, match="frozen"):
        recipe.seed = 2  # type: ignore[misc]  # what the test is about


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("generation.temperature=-0.1", "takes number, at least 0, at most 2; found -0.1"),
        ("generation.temperature=2.1", "takes number, at least 0, at most 2; found 2.1"),
        ("generation.temperature=.nan", "takes number, at least 0, at most 2; found .nan"),
        ("generation.top_p=0", "generation.top_p: takes number, above 0, at most 1; found 0"),
        ("generation.top_k=-1", "generation.top_k: takes whole number, at least 0; found -1"),
        ("generation.backend=dynamo", "generation.backend: takes `vllm`; found dynamo"),
        ("policy.logprobs=fast", "policy.logprobs: takes `plain` or `fused`; found fast"),
        ("generation.max_new_tokens=256", "generation.max_new_tokens: no room for a prompt"),
        ("generation.ports=[1, 2, 3]", "generation.ports: 3 ports for 2 workers"),
        ("generation.ports=[8001, 8001]", "generation.ports: a port twice"),
        ("generation.ports=[1, 70000]", "generation.ports.1: takes list"),
        ("policy.ranks=0", "policy.ranks: takes whole number, at least 1; found 0"),
        ("policy.lr=0", "policy.lr: takes number, above 0; found 0"),
        ("policy.dtype=fp8", "policy.dtype: takes `float32` or `bfloat16`; found fp8"),
        ("policy.optimizer.betas=[0.9]", "policy.optimizer.betas.1: takes list: 2 of"),
        ("policy.optimizer.betas=[0.9, 1.0]", "policy.optimizer.betas.1: takes list: 2 of"),
        ("run.dir=''", "run.dir: takes text; found ''"),
        ("policy.temperature=1", "did you mean 'generation.temperature'?"),
        ("data.prompts_per_step=0", "data.prompts_per_step: takes"),
        ("checkpoint.every=-1", "checkpoint.every: takes"),
        ("checkpoint.keep=0", "checkpoint.keep: takes"),
        ("policy.schedule.kind=step", "policy.schedule.kind: takes"),
        (
            "policy.schedule={kind: linear, warmup_steps: 1}",
            "policy.schedule.warmup_steps: nothing is left of 1 steps to fall in",
        ),
    ],
)
def test_values_that_make_no_sense_together_or_alone_are_refused(
    override: str, message: str
) -> None:
    assert message in refused(GYM_TRAINING, *GIVEN, override, schema=TrainRecipe)


def test_steps_at_which_nothing_would_be_learnt_are_refused() -> None:
    keys = ("run.steps=9", "policy.schedule={kind: linear, steps: 8}")
    message = refused(GYM_TRAINING, *GIVEN, *keys, schema=TrainRecipe)
    assert "policy.schedule.steps: the learning rate would be 0 in the rest of the 9" in message
    load_recipe(GYM_TRAINING, [*GIVEN, *keys, "policy.schedule.final=0.1"])
    load_recipe(GYM_TRAINING, [*GIVEN, "run.steps=9", "policy.schedule.kind=linear"])
