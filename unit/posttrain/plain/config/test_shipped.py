"""The recipe of the main job, and the table of keys."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from posttrain.config import explain, load_recipe
from posttrain.config.entries import ENTRY_POINTS
from posttrain.config.keys import (
    documented_keys,
    schema_keys,
    table,
)
from posttrain.config.training import TrainRecipe
from posttrain.errors import RecipeError
from posttrain.model.revision import content_revision
from unit.posttrain.plain.config.recipes import (
    GIVEN,
    GYM_TRAINING,
    ROOT,
    line_of,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_the_gym_training_recipe_loads_with_what_the_harness_gives() -> None:
    recipe = load_recipe(GYM_TRAINING, GIVEN).recipe
    assert recipe.policy.ranks == 2
    assert recipe.generation.workers == 2
    assert recipe.policy.optimizer.betas == (0.9, 0.999)
    assert recipe.policy.lr == 1e-4
    assert recipe.generation.ports == ()
    assert recipe.model.path == "fixtures/tiny-llama"
    assert recipe.interpreters.gym == "python-y"
    assert recipe.timeouts.call_s == 30.0


def test_the_recipe_pins_the_model_that_is_checked_in() -> None:
    model = load_recipe(GYM_TRAINING, GIVEN).recipe.model
    assert model.revision == content_revision(ROOT / model.path)


def test_everything_that_is_still_missing_is_named_at_once_with_its_line() -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(GYM_TRAINING, GIVEN[2:])
    lines = str(caught.value).splitlines()
    base = ROOT / "functional/recipes/base.yaml"
    first, second = line_of(base, "  dir: ???"), line_of(base, "  policy: ???")
    assert f"    run.dir: missing (mandatory at {first})" in lines
    assert f"    interpreters.policy: missing (mandatory at {second})" in lines
    assert sum("missing" in line for line in lines) == 2


def test_an_inherited_dataset_is_explained_with_the_file_that_it_came_from() -> None:
    lines = explain(load_recipe(GYM_TRAINING, GIVEN)).splitlines()
    base = ROOT / "functional/recipes/base.yaml"
    train = line_of(GYM_TRAINING, "  train: fixtures/gym_math.jsonl")
    validation = line_of(base, "  validation: ${data.train}")
    assert f"  train: fixtures/gym_math.jsonl  # {train}" in lines
    assert (
        f"  validation: fixtures/gym_math.jsonl  # {validation}, written ${{data.train}}" in lines
    )
    assert "  dir: runs/test  # command line" in lines


def test_explain_says_the_origin_of_every_value_and_loads_again(tmp_path: Path) -> None:
    loaded = load_recipe(GYM_TRAINING, [*GIVEN, "generation.ports=[8101, 8102]"])
    text = explain(loaded)
    _, body = text.split("\n\n")
    values = [line for line in body.splitlines() if not line.endswith(":")]
    assert len(values) == len(schema_keys(TrainRecipe))
    assert all("  # " in line for line in values)
    assert load_recipe(write(tmp_path, main=text)).recipe == loaded.recipe


def test_the_documented_table_of_keys_is_the_schema() -> None:
    page = (ROOT / "docs/recipes.md").read_text()
    assert page.endswith("\n\n" + table(documented_keys(ENTRY_POINTS)))


def test_every_key_has_a_meaning() -> None:
    assert [key.path for key in schema_keys(TrainRecipe).values() if not key.meaning] == []


def test_printing_the_table_of_keys_needs_no_heavy_library() -> None:
    program = (
        "import sys, runpy; runpy.run_module('posttrain.config', run_name='__main__');"
        "assert not {'torch', 'ray', 'tensorboard'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == table(documented_keys(ENTRY_POINTS))
