"""Files that inherit from others, and mandatory marks through merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from posttrain.config.load import load_schema
from unit.posttrain.plain.config.recipes import (
    SMALL,
    Small,
    load_small,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


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
