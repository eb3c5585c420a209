"""What all ranks of an engine together serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RefitError
from posttrain.generation.parts import Held, Loaded, Piece, Readback, Span
from posttrain.generation.proof import assembled, of_all_ranks, uncovered, unproven

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE = Span("a", (2, 3), 0, 0, 2)
LEFT, RIGHT = Span("b", (2, 4), 1, 0, 2), Span("b", (2, 4), 1, 2, 2)
LOADED = [
    Loaded(0, began=True, digests={"a": "1", "b": "2"}),
    Loaded(1, began=True, digests={"a": "1", "b": "3"}),
]
LIVE = [
    Readback(0, (Held(WHOLE, "float32", "1"), Held(LEFT, "float32", "2"))),
    Readback(1, (Held(WHOLE, "float32", "1"), Held(RIGHT, "float32", "3"))),
]


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [None, None],
        ["2"],
        [True, True],
        LOADED[:1],
        [*LOADED, LOADED[0]],
        [LOADED[0], None],
        LIVE,
        "ab",
    ],
)
def test_an_answer_that_is_none_or_of_no_rank_is_no_answer(answers: Sequence[object]) -> None:
    with pytest.raises(RefitError, match="instead of 2 answers of the kind Loaded"):
        of_all_ranks("a refit", answers, Loaded, 2)
    assert of_all_ranks("a refit", LOADED, Loaded, 2) == LOADED


def test_ranks_that_hold_what_arrived_and_together_everything_are_proven() -> None:
    assert unproven(LOADED, LIVE) == []


@pytest.mark.parametrize(
    ("second", "problems"),
    [
        (
            Readback(1, (Held(WHOLE, "float32", "9"), Held(RIGHT, "float32", "3"))),
            ["rank 1: a differs from what was sent"],
        ),
        (
            Readback(1, (Held(WHOLE, "float32", "1"),)),
            ["rank 1: b was sent and is not live", "no rank serves all of b"],
        ),
        (
            Readback(
                1,
                (
                    Held(WHOLE, "float32", "1"),
                    Held(WHOLE, "float32", "0"),
                    Held(RIGHT, "float32", "3"),
                ),
            ),
            ["rank 1: a differs from what was sent"],
        ),
        (
            Readback(1, (Held(WHOLE, "float32", "1"), Held(LEFT, "float32", "3"))),
            ["no rank serves all of b"],
        ),
    ],
)
def test_each_way_not_to_be_proven_names_rank_and_tensor(
    second: Readback, problems: list[str]
) -> None:
    assert unproven(LOADED, [LIVE[0], second]) == problems


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.data())
def test_ranks_cover_a_tensor_exactly_when_every_index_is_in_a_part(
    cuts: list[int], data: st.DataObject
) -> None:
    spans = [(start, data.draw(st.integers(start, 12))) for start in cuts]
    readbacks = [
        Readback(rank, (Held(Span("w", (12,), 0, start, stop - start), "float32", ""),))
        for rank, (start, stop) in enumerate(spans)
    ]
    held = {index for start, stop in spans for index in range(start, stop)}
    assert (uncovered(readbacks) == []) == (held == set(range(12)))


def test_parts_are_put_together_and_overlaps_must_agree() -> None:
    full = torch.arange(8.0).reshape(2, 4)
    both = [Piece(LEFT, full[:, :2]), Piece(RIGHT, full[:, 2:])]
    assert assembled(both)["b"].equal(full)
    with pytest.raises(RefitError, match="ranks that hold the same part differ"):
        assembled([*both, Piece(RIGHT, full[:, 2:] + 1)])
    with pytest.raises(RefitError, match="no rank serves all of b"):
        assembled(both[:1])
