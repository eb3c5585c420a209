"""Laws of merging layers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.config.merge import merge
from posttrain.config.text import (
    MISSING,
    NOTHING,
    Appended,
    Leaf,
)

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
