"""Recipes: inheritance, overrides, interpolation, strictness, origins."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from posttrain.config import explain, load_recipe
from posttrain.config.entries import ENTRY_POINTS
from posttrain.config.explain import literal
from posttrain.config.keys import (
    IDENTITY,
    Section,
    documented_keys,
    honoured_by,
    schema_keys,
    table,
)
from posttrain.config.load import load_schema
from posttrain.config.merge import merge
from posttrain.config.text import (
    MISSING,
    NOTHING,
    Appended,
    Leaf,
    format_override,
    format_value,
    parse_file,
    parse_override,
)
from posttrain.config.training import SingleRecipe, TrainRecipe
from posttrain.errors import RecipeError
from posttrain.model.revision import content_revision

ROOT = Path(__file__).parents[3]
GYM_TRAINING = ROOT / "functional/recipes/gym_training.yaml"
GIVEN = (
    "run.dir=runs/test",
    "interpreters.policy=python-p",
    "interpreters.generation=python-g",
    "interpreters.gym=python-y",
)


class Inner(Section):
    lr: float
    names: tuple[str, ...]


class Small(Section):
    inner: Inner
    seed: int
    label: str
    on: bool


SMALL = "inner: {lr: 0.1, names: [a, b]}\nseed: 1\nlabel: x\non: true\n"


class Capture(Section):
    folder: str


class Shared(Section):
    seed: int
    capture: Annotated[Capture | None, honoured_by("controller")] = None


def write(folder: Path, **files: str) -> Path:
    """Write the files, and return the path of ``main.yaml``."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / "main.yaml"


class Files(Section):
    train: Annotated[str, IDENTITY]
    check: Annotated[str, IDENTITY]
    shuffle: bool
    extra: tuple[str, ...]


class Run(Section):
    data: Files
    lr: float


RUN = """
data: {train: base.jsonl, check: "${data.train}", shuffle: true, extra: [a, b]}
lr: 0.1
"""


def line_of(path: Path, text: str) -> str:
    """Where a line of a file is, as origins say it."""
    return f"{path}:{path.read_text(encoding='utf-8').splitlines().index(text) + 1}"


def load_small(path: Path, *overrides: str) -> Small:
    return load_schema(Small, path, overrides).recipe


def refused(path: Path, *overrides: str, schema: type[Section] = Small) -> str:
    with pytest.raises(RecipeError) as caught:
        load_schema(schema, path, overrides)
    error = caught.value
    assert error.asked
    assert error.found
    assert error.todo
    return str(error)


# The shipped recipe


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


# Inheritance


def test_defaults_chain_and_the_nearest_file_wins(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        base=SMALL,
        middle="defaults: base.yaml\nseed: 2\nlabel: middle\n",
        main="defaults: middle.yaml\nseed: 3\n",
    )
    recipe = load_small(path)
    assert (recipe.seed, recipe.label, recipe.inner.lr) == (3, "middle", 0.1)


def test_of_several_defaults_the_last_wins_and_a_shared_ancestor_counts_once(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path,
        base=SMALL,
        left="defaults: base.yaml\nseed: 2\nlabel: left\n",
        right="defaults: base.yaml\nlabel: right\n",
        main="defaults: [left.yaml, right.yaml]\n",
    )
    recipe = load_small(path)
    # Applied a second time, base would have undone what left says.
    assert (recipe.seed, recipe.label) == (2, "right")


def test_defaults_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path, base=SMALL)
    path = write(tmp_path / "deep", main="defaults: ../base.yaml\nseed: 7\n")
    loaded = load_schema(Small, path)
    assert loaded.recipe.seed == 7
    origins = {value.path: value.origin for value in loaded.values}
    assert origins["label"] == f"{tmp_path}/base.yaml:3"


def test_a_circle_of_defaults_is_refused_with_its_way_round(tmp_path: Path) -> None:
    path = write(
        tmp_path, main="defaults: a.yaml\n", a="seed: 1\ndefaults: b.yaml\n", b="defaults: a.yaml\n"
    )
    message = refused(path)
    assert "a.yaml -> b.yaml -> a.yaml" in message
    assert f"{tmp_path}/b.yaml:1" in message


def test_a_file_that_inherits_from_itself_is_refused(tmp_path: Path) -> None:
    assert "main.yaml -> main.yaml" in refused(write(tmp_path, main="defaults: main.yaml\n"))


def test_a_missing_parent_is_named_with_the_line_that_wants_it(tmp_path: Path) -> None:
    message = refused(write(tmp_path, main="seed: 1\ndefaults: gone.yaml\n"))
    assert f"{tmp_path}/gone.yaml" in message
    assert f"{tmp_path}/main.yaml:2" in message
    assert "No such file" in message


@pytest.mark.parametrize("defaults", ["3", "[a.yaml, 3]", "null", "''", "{a: 1}"])
def test_defaults_must_be_file_names(tmp_path: Path, defaults: str) -> None:
    assert "main.yaml:1" in refused(write(tmp_path, main=f"defaults: {defaults}\n"))


def test_a_missing_recipe_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.yaml")


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    assert "directory" in refused(tmp_path)


def test_a_recipe_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_bytes(b"label: \xff\n")
    assert "not UTF-8" in refused(tmp_path / "main.yaml")


# Merging


def test_a_mandatory_mark_stays_through_a_merge_until_a_value_comes(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        base=SMALL.replace("seed: 1", "seed: ???"),
        middle="defaults: base.yaml\nlabel: y\n",
        main="defaults: middle.yaml\n",
    )
    assert f"seed: missing (mandatory at {tmp_path}/base.yaml:2)" in refused(path)
    assert load_small(path, "seed=4").seed == 4


def test_a_mandatory_mark_does_not_hide_a_value_that_is_there(tmp_path: Path) -> None:
    path = write(tmp_path, base=SMALL, main="defaults: base.yaml\nseed: ???\n")
    assert load_small(path).seed == 1


def test_a_key_that_no_file_sets_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL.replace("label: x\n", ""))
    assert "label: missing (nowhere set)" in refused(path)


def test_lists_are_replaced_and_sections_are_merged(tmp_path: Path) -> None:
    path = write(tmp_path, base=SMALL, main="defaults: base.yaml\ninner: {names: [c]}\n")
    recipe = load_small(path)
    assert recipe.inner.names == ("c",)
    assert recipe.inner.lr == 0.1


# Appending to lists


def test_a_plus_appends_to_the_list_that_comes_before(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        base=SMALL,
        middle="defaults: base.yaml\ninner: {names+: [c]}\n",
        main="defaults: middle.yaml\ninner:\n  names+: [d, e]\n",
    )
    assert load_small(path).inner.names == ("a", "b", "c", "d", "e")
    assert load_small(path, "inner.names+=[f]").inner.names == ("a", "b", "c", "d", "e", "f")
    assert load_small(path, "inner={names+: [f]}", "inner.names+=[g]").inner.names[-2:] == (
        "f",
        "g",
    )


def test_a_list_without_a_plus_replaces_what_was_appended_before(tmp_path: Path) -> None:
    path = write(tmp_path, base=SMALL, main="defaults: base.yaml\ninner: {names+: [c]}\n")
    assert load_small(path, "inner.names=[x]", "inner.names+=[y]").inner.names == ("x", "y")


def test_a_mandatory_mark_keeps_what_is_appended_until_the_list_comes(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        base=SMALL.replace("{lr: 0.1, names: [a, b]}", "\n  lr: 0.1\n  names: ???"),
        main="defaults: base.yaml\ninner: {names+: [c]}\n",
    )
    assert f"inner.names: missing (mandatory at {tmp_path}/base.yaml:3)" in refused(path)
    list_first = write(tmp_path, base=SMALL, main="defaults: base.yaml\ninner: {names+: [c]}\n")
    assert load_small(list_first, "inner.names=???").inner.names == ("a", "b", "c")


def test_appending_to_nothing_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL.replace("names:", "names+:"))
    message = refused(path)
    assert f"inner.names: missing (only appended to, at {tmp_path}/main.yaml:1)" in message


def test_what_is_appended_may_refer_to_other_keys_and_others_to_the_whole(tmp_path: Path) -> None:
    text = """
data: {train: "${data.extra}", check: c, shuffle: true, extra: [a]}
lr: 1
"""
    path = write(
        tmp_path, base=text, main="defaults: base.yaml\ndata: {extra+: ['${data.check}']}\n"
    )
    message = refused(path, schema=Run)
    assert "data.train: takes text; found [a, c]" in message
    path = write(
        tmp_path,
        base=SMALL,
        main="defaults: base.yaml\ninner: {names: '${outer}'}\n",
    )
    assert "'outer' not found" in refused(path)


class Pair(Section):
    left: tuple[int, ...]
    right: tuple[int, ...]


def test_a_list_that_is_taken_from_another_key_can_be_appended_to(tmp_path: Path) -> None:
    path = write(tmp_path, main="left: [1]\nright: ${left}\n")
    loaded = load_schema(Pair, path, ["left+=[2]", "right+=[3]", "right+=${left}"])
    assert loaded.recipe.right == (1, 2, 3, 1, 2)
    assert "- 2  # command line, ${left}" in [line.strip() for line in explain(loaded).splitlines()]
    assert load_schema(Pair, write(tmp_path, main=explain(loaded))).recipe == loaded.recipe


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("inner.names+=c", "c, which is no list"),
        ("inner.names+=", "null, which is no list"),
        ("inner.names+=???", "???, which is no list"),
        ("inner+={lr: 1}", "leave the plus out"),
        ("seed+=[1]", "seed: 1 is no list, but something is appended"),
        ("inner.names+=${seed}", "seed: 1 is no list, but something is appended"),
        ("inner.names+=${inner.names}", "a list that is taken from itself"),
        ("inner.names+=${nowhere}", "inner.names: ${nowhere} is no list"),
        ("inner.names+=[1]", "inner.names.2: takes list: any number of (text); found [a, b, 1]"),
    ],
)
def test_only_lists_are_appended_and_only_to_lists(
    tmp_path: Path, override: str, message: str
) -> None:
    said = refused(write(tmp_path, main=SMALL), override)
    assert message in said
    assert "command line" in said or "main.yaml" in said


def test_a_key_with_and_without_plus_in_one_section_is_a_key_twice(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL + "inner: {names+: [c]}\n")
    assert "the same key already" in refused(path)
    path = write(tmp_path, main="inner: {names: [a], names+: [c]}\n")
    assert "the same key already" in refused(path)


@pytest.mark.parametrize("word", ["defaults", "binds", "shared"])
def test_what_a_file_says_about_itself_is_not_appended_to(tmp_path: Path, word: str) -> None:
    message = refused(write(tmp_path, main=SMALL + f"{word}+: [base.yaml]\n"))
    assert f"append to '{word}' at {tmp_path}/main.yaml:5" in message


def test_the_origin_of_each_item_of_a_list_that_was_appended_to_is_explained(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, base=SMALL, main="defaults: base.yaml\ninner:\n  names+: [c]\n")
    loaded = load_schema(Small, path, ["inner.names+=['${label}']"])
    assert explain(loaded).splitlines()[:7] == [
        "inner:",
        f"  lr: 0.1  # {tmp_path}/base.yaml:1",
        "  names:",
        f"  - a  # {tmp_path}/base.yaml:1",
        f"  - b  # {tmp_path}/base.yaml:1",
        f"  - c  # {tmp_path}/main.yaml:3",
        "  - x  # command line, written ${label}",
    ]
    again = load_schema(Small, write(tmp_path, main=explain(loaded)))
    assert again.recipe == loaded.recipe


def test_a_wrong_item_is_refused_with_the_line_that_appended_it(tmp_path: Path) -> None:
    path = write(tmp_path, base=SMALL, main="defaults: base.yaml\ninner:\n  names+: [c, 4]\n")
    assert f"found [a, b, c, 4] ({tmp_path}/main.yaml:3)" in refused(path)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from("xyz"), max_size=2)), min_size=1))
def test_lists_end_as_if_they_were_assigned_and_extended_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[bool, list[str]]]
) -> None:
    expected = ["a", "b"]
    overrides = []
    for plus, chunk in changes:
        expected = [*expected, *chunk] if plus else chunk
        overrides.append(f"inner.names{'+' if plus else ''}=[{', '.join(chunk)}]")
    loaded = load_small(write(tmp_path_factory.mktemp("lists"), main=SMALL), *overrides)
    assert list(loaded.inner.names) == expected


# What is inherited


def test_inherited_data_is_shown_in_capitals_and_at_the_top(tmp_path: Path) -> None:
    path = write(tmp_path, base=RUN, main="defaults: base.yaml\nlr: 0.2\n")
    lines = explain(load_schema(Run, path)).splitlines()
    origin = f"INHERITED from {tmp_path}/base.yaml:2"
    assert lines[:3] == [
        "# What this recipe is about:",
        f"# data.train: base.jsonl  # {origin}",
        f"# data.check: base.jsonl  # {origin}, written ${{data.train}}",
    ]
    assert f"  train: base.jsonl  # {origin}" in lines
    assert f"  shuffle: true  # {tmp_path}/base.yaml:2" in lines


def test_data_that_the_recipe_itself_gives_is_not_called_inherited(tmp_path: Path) -> None:
    path = write(tmp_path, base=RUN, main="defaults: base.yaml\ndata: {train: own.jsonl}\n")
    assert "INHERITED" not in explain(load_schema(Run, path))
    path = write(tmp_path, base=RUN, main="defaults: base.yaml\n")
    assert "INHERITED" not in explain(load_schema(Run, path, ["data.train=own.jsonl"]))
    assert "INHERITED" not in explain(load_schema(Run, write(tmp_path, main=RUN)))


def test_a_misspelt_override_of_inherited_data_leaves_its_mark(tmp_path: Path) -> None:
    # What replaces the rows to check with is not what replaces the rows to train on.
    path = write(tmp_path, base=RUN, main="defaults: base.yaml\ndata: {check: own.jsonl}\n")
    lines = explain(load_schema(Run, path)).splitlines()
    assert f"# data.train: base.jsonl  # INHERITED from {tmp_path}/base.yaml:2" in lines
    assert f"# data.check: own.jsonl  # {tmp_path}/main.yaml:2" in lines


@pytest.mark.parametrize("binds", ["data", "data.train", "[data.check, lr]"])
def test_a_recipe_that_binds_keys_must_not_inherit_them(tmp_path: Path, binds: str) -> None:
    path = write(tmp_path, base=RUN, main=f"defaults: base.yaml\nbinds: {binds}\n")
    message = refused(path, schema=Run)
    assert f"bound at {tmp_path}/main.yaml:2, but" in message
    assert f"is inherited from {tmp_path}/base.yaml:2" in message
    load_schema(Run, path, ["data.train=own.jsonl", "lr=1"])


def test_what_is_bound_may_come_from_the_file_itself_or_refer_to_what_does(tmp_path: Path) -> None:
    text = "defaults: base.yaml\nbinds: [data, lr]\nlr: 2\ndata: {train: own.jsonl}\n"
    recipe = load_schema(Run, write(tmp_path, base=RUN, main=text)).recipe
    assert recipe.data.check == "own.jsonl"
    # Who refers to an inherited value has said so.
    text = text.replace("own.jsonl", "'${data.check}'").replace("[data, lr]", "data.train")
    base = RUN.replace('"${data.train}"', "base-check.jsonl")
    assert load_schema(Run, write(tmp_path, base=base, main=text)).recipe.data.train == (
        "base-check.jsonl"
    )


def test_a_mandatory_mark_in_the_file_that_binds_does_not_let_a_parents_value_through(
    tmp_path: Path,
) -> None:
    text = "defaults: base.yaml\nbinds: data.train\ndata:\n  train: ???\n"
    path = write(tmp_path, base=RUN, main=text)
    assert "base.jsonl is inherited from" in refused(path, schema=Run)


def test_appending_to_an_inherited_list_does_not_make_it_ones_own(tmp_path: Path) -> None:
    text = "defaults: base.yaml\nbinds: data.extra\ndata: {extra+: [c]}\n"
    path = write(tmp_path, base=RUN, main=text)
    assert "data.extra: bound at" in refused(path, schema=Run)


def test_a_child_may_inherit_what_its_parent_binds(tmp_path: Path) -> None:
    parent = "defaults: base.yaml\nbinds: data\ndata: {train: own.jsonl}\n"
    path = write(tmp_path, base=RUN, parent=parent, main="defaults: parent.yaml\nlr: 3\n")
    assert load_schema(Run, path).recipe.lr == 3
    assert f"INHERITED from {tmp_path}/parent.yaml:3" in explain(load_schema(Run, path))


def test_binding_what_is_no_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    message = refused(write(tmp_path, main=RUN + "binds: [dta]\n"), schema=Run)
    assert f"binds dta: no such key or section; did you mean 'data'? ({tmp_path}/main.yaml:4)" in (
        message
    )
    assert "bind at" in refused(write(tmp_path, main=RUN + "binds: 3\n"), schema=Run)


paths = st.sampled_from(["a", "b", "c.d", "c.e"])
written = st.one_of(st.just(MISSING), st.just(NOTHING), st.integers(), st.none())
appended = st.builds(Appended, st.lists(st.integers(), max_size=2), st.text(max_size=2))
leaves = st.builds(Leaf, written, st.text(max_size=2), st.lists(appended, max_size=2).map(tuple))
layers = st.dictionaries(paths, leaves)


@settings(deadline=None)
@given(layers, layers, layers)
def test_merging_is_associative(first: dict, second: dict, third: dict) -> None:
    at_once = merge([first, second, third])
    assert merge([merge([first, second]), third]) == at_once
    assert merge([first, merge([second, third])]) == at_once


@settings(deadline=None)
@given(layers)
def test_merging_with_nothing_changes_nothing(layer: dict) -> None:
    assert merge([{}, layer]) == merge([layer, {}]) == layer


@settings(deadline=None)
@given(layers)
def test_a_layer_that_appends_nothing_changes_nothing_a_second_time(layer: dict) -> None:
    plain = {path: Leaf(leaf.value, leaf.origin) for path, leaf in layer.items()}
    assert merge([plain, plain]) == plain


@settings(deadline=None)
@given(layers, layers)
def test_the_later_layer_wins_wherever_it_has_a_value(first: dict, second: dict) -> None:
    merged = merge([first, second])
    assert merged.keys() == first.keys() | second.keys()
    for path, leaf in merged.items():
        pair = [side[path] for side in (first, second) if path in side]
        valued = [side for side in pair if side.value not in (MISSING, NOTHING)]
        if valued:
            assert (leaf.value, leaf.origin) == (valued[-1].value, valued[-1].origin)
            since = pair[-1:] if valued[-1] is pair[-1] else pair
        else:
            since = pair
        assert leaf.appended == tuple(part for side in since for part in side.appended)


# Interpolation


def test_interpolation_sees_the_merged_values(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        base=SMALL.replace("label: x", "label: run-${seed}"),
        main="defaults: base.yaml\nseed: 5\n",
    )
    assert load_small(path).label == "run-5"
    assert load_small(path, "seed=6").label == "run-6"


def test_an_interpolated_number_stays_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL.replace("lr: 0.1", "lr: '${seed}'"))
    assert load_small(path).inner.lr == 1.0


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("${nowhere.at_all}", "'nowhere.at_all' not found"),
        ("${label}", "Recursive interpolation"),
        ("'${'", "no viable alternative"),
        ("${nothing:3}", "Unsupported interpolation type"),
    ],
)
def test_an_interpolation_that_leads_nowhere_is_refused_with_its_line(
    tmp_path: Path, written: str, reason: str
) -> None:
    message = refused(write(tmp_path, main=SMALL.replace("label: x", f"label: {written}")))
    assert reason in message
    assert "label: " in message
    assert "main.yaml:3" in message


def test_an_interpolation_of_a_missing_value_names_the_missing_key(tmp_path: Path) -> None:
    text = SMALL.replace("seed: 1", "seed: ???").replace("label: x", "label: a${seed}")
    assert "seed: missing" in refused(write(tmp_path, main=text))


def test_an_interpolated_section_is_no_value(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL.replace("label: x", "label: ${inner}"))
    assert "label: takes text" in refused(path)


# Overrides

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


def same(left: object, right: object) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@settings(deadline=None)
@example("\x85")  # a line break of YAML 1.1 that is folded inside single quotes
@example("a\u2028b\n")
@given(st.one_of(scalars, st.lists(scalars), st.lists(st.lists(scalars))))
def test_an_override_keeps_the_type_and_value_that_was_formatted(value: object) -> None:
    layer = parse_override(format_override("a.b", value))
    assert list(layer.leaves) == ["a.b"]
    assert same(layer.leaves["a.b"].value, value)
    assert layer.leaves["a.b"].origin == "command line"


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\\${}'\" ")))
def test_any_text_survives_explain_and_a_second_load(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    assume(text != MISSING)  # the one text that no value can be
    folder = tmp_path_factory.mktemp("explain")
    label = format_value(literal(text))
    first = load_schema(Small, write(folder, main=SMALL), [f"label={label}"])
    assert first.recipe.label == text
    again = load_schema(Small, write(folder, main=explain(first)))
    assert again.recipe == first.recipe


def test_text_that_looks_like_an_interpolation_survives_explain(tmp_path: Path) -> None:
    text = SMALL.replace("label: x", r"label: 'a\${seed}-${seed}'")
    first = load_schema(Small, write(tmp_path, main=text))
    assert first.recipe.label == "a${seed}-1"
    again = load_schema(Small, write(tmp_path, main=explain(first)))
    assert again.recipe == first.recipe


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("a=1", 1),
        ("a=-0x1F", "-0x1F"),
        ("a=0x1F", 31),
        ("a=1e-4", 1e-4),
        ("a=1.", 1.0),
        ("a=-.5", -0.5),
        ("a=.inf", math.inf),
        ("a=true", True),
        ("a=yes", "yes"),
        ("a=off", "off"),
        ("a=12:30", "12:30"),
        ("a=1_000", "1_000"),
        ("a=0755", "0755"),
        ("a=2026-01-01", "2026-01-01"),
        ("a='1'", "1"),
        ("a=", None),
        ("a=~", None),
        ("a=x=y", "x=y"),
        ("a=[1, [two]]", [1, ["two"]]),
        ("a=???", "???"),
    ],
)
def test_override_values_are_yaml(argument: str, value: object) -> None:
    assert same(parse_override(argument).leaves["a"].value, value)


def test_the_last_override_wins_over_files_and_earlier_ones(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL)
    assert load_small(path, "seed=8", "seed=9").seed == 9


def test_an_override_of_a_section_merges_into_it(tmp_path: Path) -> None:
    inner = load_small(write(tmp_path, main=SMALL), "inner={lr: 0.5}").inner
    assert (inner.lr, inner.names) == (0.5, ("a", "b"))


@pytest.mark.parametrize("argument", ["seed", "=1", "+seed=1", "~seed", "seed.=1", ".x=1", "a b=1"])
def test_an_override_of_another_form_is_refused(tmp_path: Path, argument: str) -> None:
    message = refused(write(tmp_path, main=SMALL), argument)
    assert repr(argument) in message
    assert "key.path=value" in message


def test_an_override_with_broken_yaml_is_refused(tmp_path: Path) -> None:
    assert "seed=[1," in refused(write(tmp_path, main=SMALL), "seed=[1,")


# Strictness


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


# Entry points


def test_a_key_that_the_entry_point_would_ignore_is_refused_and_says_who_honours_it(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, main="seed: 1\ncapture:\n  folder: x\n")
    with pytest.raises(RecipeError) as caught:
        load_schema(Shared, path, entry="train")
    expected = f"capture.folder: 'train' would ignore it; honoured by 'controller' ({path}:3)"
    assert expected in str(caught.value)
    recipe = load_schema(Shared, path, entry="controller").recipe
    assert recipe.capture == Capture(folder="x")


def test_a_key_is_asked_for_only_by_the_entry_points_that_honour_it(tmp_path: Path) -> None:
    path = write(tmp_path, main="seed: 1\n")
    assert load_schema(Shared, path, entry="train").recipe.capture is None
    with pytest.raises(RecipeError, match=r"capture\.folder: missing"):
        load_schema(Shared, path, entry="controller")


def test_a_file_reads_as_leaves_with_lines() -> None:
    layer = parse_file("a:\n  b: 1\n\n  c: [1]\n", "r.yaml")
    assert layer.leaves == {"a.b": Leaf(1, "r.yaml:2"), "a.c": Leaf([1], "r.yaml:4")}
    assert layer.defaults.value == []


class Check(Section):
    seed: int
    judge: str


BOTH = {"train": Small, "verify": Check}


def test_a_key_of_another_entry_points_schema_is_an_error_that_names_its_readers(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, main="seed: 1\njudge: x\ninner:\n  lr: 1\n")
    with pytest.raises(RecipeError) as caught:
        load_schema(Check, path, ["on=true", "sede=1"], "verify", BOTH)
    message = str(caught.value)
    assert f"inner.lr: 'verify' would ignore it; honoured by 'train' ({path}:4)" in message
    assert "on: 'verify' would ignore it; honoured by 'train' (command line)" in message
    assert "sede: unknown key; did you mean 'seed'? (command line)" in message


def test_all_readers_of_a_key_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, main="seed: 1\nlabel: x\n")
    three = {**BOTH, "show": Small}
    with pytest.raises(RecipeError, match=r"label: 'verify' .*honoured by 'train', 'show'"):
        load_schema(Check, path, (), "verify", three)


def test_a_shared_file_may_say_what_other_entry_points_read(tmp_path: Path) -> None:
    shared = "shared: true\n" + SMALL + "judge: x\n"
    path = write(tmp_path, base=shared, main="defaults: base.yaml\nseed: 2\n")
    assert load_schema(Check, path, (), "verify", BOTH).recipe == Check(seed=2, judge="x")
    assert load_schema(Small, path, (), "train", BOTH).recipe.seed == 2
    with pytest.raises(RecipeError, match="label: 'verify' would ignore it"):
        load_schema(Check, path, ["label=y"], "verify", BOTH)


def test_a_shared_file_may_not_say_what_nobody_reads(tmp_path: Path) -> None:
    path = write(tmp_path, main="shared: true\n" + SMALL + "sede: 2\n")
    assert "sede: unknown key" in refused(path)
    assert "shared: takes `true` or `false`; found yes" in refused(
        write(tmp_path, main=SMALL + "shared: yes\n")
    )


def test_the_documentation_names_the_readers_of_what_not_everybody_reads() -> None:
    lines = table(documented_keys(BOTH)).splitlines()
    assert "| `seed` | whole number |  | all |" in lines
    assert "| `judge` | text |  | `verify` |" in lines
    assert "| `inner.lr` | number |  | `train` |" in lines


def test_every_key_of_the_training_recipe_is_honoured_by_train() -> None:
    assert all(key.honoured("train") for key in schema_keys(TrainRecipe).values())


def single(*overrides: str) -> SingleRecipe:
    arguments = [*GIVEN, *overrides]
    return load_schema(SingleRecipe, GYM_TRAINING, arguments, "single_controller").recipe


def test_an_entry_point_that_does_not_use_the_data_plane_refuses_the_recipe(
    tmp_path: Path,
) -> None:
    message = refused(GYM_TRAINING, *GIVEN, "dataplane.kind=transfer_queue", schema=TrainRecipe)
    ignored = "dataplane.kind: an entry point whose rows never leave its memory would ignore it"
    assert f"{ignored}; honoured by 'single_controller'" in message
    # Not even a file that is shared may say it: it would be a fall back that nobody sees.
    shared = write(
        tmp_path,
        main=f"shared: true\ndefaults: {GYM_TRAINING}\ndataplane:\n  kind: transfer_queue\n",
    )
    assert "main.yaml:4" in refused(shared, *GIVEN, schema=TrainRecipe)
    assert single("dataplane.kind=transfer_queue").dataplane.kind == "transfer_queue"


@pytest.mark.parametrize(
    "key", ["dataplane.storage_units=3", "dataplane.deadline_s=1", "controller.staleness=1"]
)
def test_keys_of_the_single_controller_are_errors_for_train(key: str) -> None:
    message = refused(GYM_TRAINING, *GIVEN, key, schema=TrainRecipe)
    name = key.split("=", maxsplit=1)[0]
    assert f"{name}: 'train' would ignore it; honoured by 'single_controller'" in message


def test_checkpoints_are_an_error_for_the_single_controller() -> None:
    with pytest.raises(RecipeError, match=r"checkpoint\.every: .* would ignore it"):
        single("checkpoint.every=1")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["rollouts.per_prompt=9"], "rollouts.concurrency: the 9 rollouts of a prompt"),
        (
            ["dataplane.kind=transfer_queue", "dataplane.storage_units=1"],
            "dataplane.storage_units: `transfer_queue` spreads rows over at least 2",
        ),
        *(
            (
                ["dataplane.kind=transfer_queue", f"dataplane.deadline_s={seconds}"],
                "dataplane.deadline_s: `transfer_queue` keeps deadlines of 3 to 120 s",
            )
            for seconds in (2.9, 121)
        ),
        (["cluster.accelerators=2"], "generation.colocated: engines that hand their accelerators"),
        (["controller.staleness=-1"], "controller.staleness: takes whole number, at least 0"),
        (["controller.stall_s=0"], "controller.stall_s: takes number, above 0"),
    ],
)
def test_a_single_controller_that_cannot_work_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        single(*overrides)
    assert words in str(caught.value)


def test_a_mark_without_an_entry_point_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an entry point"):
        honoured_by()
