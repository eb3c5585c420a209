"""Recipes: inheritance, overrides, interpolation, strictness, origins."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posttrain.config import explain, load_recipe
from posttrain.config.explain import literal
from posttrain.config.keys import HonouredBy, Section, honoured_by, schema_keys, table
from posttrain.config.load import load_schema, merge
from posttrain.config.schema import Recipe
from posttrain.config.text import (
    MISSING,
    Leaf,
    format_override,
    format_value,
    parse_file,
    parse_override,
)
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
    assert f"    run.dir: missing (mandatory at {base}:3)" in lines
    assert f"    interpreters.policy: missing (mandatory at {base}:11)" in lines
    assert sum("missing" in line for line in lines) == 2


def test_an_inherited_dataset_is_explained_with_the_file_that_it_came_from() -> None:
    lines = explain(load_recipe(GYM_TRAINING, GIVEN)).splitlines()
    base = ROOT / "functional/recipes/base.yaml"
    assert f"  train: fixtures/gym_math.jsonl  # {GYM_TRAINING}:8" in lines
    assert f"  validation: fixtures/gym_math.jsonl  # {base}:19, written ${{data.train}}" in lines
    assert "  dir: runs/test  # command line" in lines


def test_explain_says_the_origin_of_every_value_and_loads_again(tmp_path: Path) -> None:
    loaded = load_recipe(GYM_TRAINING, [*GIVEN, "generation.ports=[8101, 8102]"])
    text = explain(loaded)
    values = [line for line in text.splitlines() if not line.endswith(":")]
    assert len(values) == len(schema_keys(Recipe))
    assert all("  # " in line for line in values)
    assert load_recipe(write(tmp_path, main=text)).recipe == loaded.recipe


def test_the_documented_table_of_keys_is_the_schema() -> None:
    assert (ROOT / "docs/recipes.md").read_text().endswith("\n\n" + table(schema_keys(Recipe)))


def test_every_key_has_a_meaning() -> None:
    assert [key.path for key in schema_keys(Recipe).values() if not key.meaning] == []


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
    assert done.stdout == table(schema_keys(Recipe))


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


paths = st.sampled_from(["a", "b", "c.d", "c.e"])
leaves = st.builds(Leaf, st.one_of(st.just(MISSING), st.integers(), st.none()), st.text())
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
    assert merge([{}, layer]) == merge([layer, {}]) == merge([layer, layer]) == layer


@settings(deadline=None)
@given(layers, layers)
def test_the_later_layer_wins_wherever_it_has_a_value(first: dict, second: dict) -> None:
    merged = merge([first, second])
    assert merged.keys() == first.keys() | second.keys()
    for path, leaf in merged.items():
        later = second.get(path)
        if later is not None and later.value != MISSING:
            assert leaf is later
        elif path in first:
            assert leaf is first[path]
        else:
            assert leaf is later


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
        ("generation.temperature=0.005", "generation.temperature: vLLM would clamp it to 0.01"),
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
    ],
)
def test_values_that_make_no_sense_together_or_alone_are_refused(
    override: str, message: str
) -> None:
    assert message in refused(GYM_TRAINING, *GIVEN, override, schema=Recipe)


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


def test_every_key_of_the_recipe_is_honoured_by_train_today() -> None:
    assert all(key.honoured("train") for key in schema_keys(Recipe).values())
    assert honoured_by("a", "b") == HonouredBy(("a", "b"))
