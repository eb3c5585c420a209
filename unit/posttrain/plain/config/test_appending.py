"""Lists that are replaced, and lists that are appended to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.config import explain
from posttrain.config.keys import (
    Section,
)
from posttrain.config.load import load_schema
from unit.posttrain.plain.config.recipes import (
    SMALL,
    Run,
    Small,
    load_small,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


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
