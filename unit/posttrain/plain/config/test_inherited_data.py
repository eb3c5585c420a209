"""Data that a recipe inherits is seen, and refused where it binds its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from posttrain.config import explain
from posttrain.config.load import load_schema
from unit.posttrain.plain.config.recipes import (
    RUN,
    Run,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


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
