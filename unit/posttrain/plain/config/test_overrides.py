"""Values of the command line keep their types."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from posttrain.config import explain
from posttrain.config.explain import literal
from posttrain.config.load import load_schema
from posttrain.config.text import (
    MISSING,
    format_override,
    format_value,
    parse_override,
)
from unit.posttrain.plain.config.recipes import (
    SMALL,
    Small,
    load_small,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

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
