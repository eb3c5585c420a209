"""Samples: one turn stays what it was; several turns are one sequence of which only parts count."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.sample import MultiTurnSample, Sample, assemble

part = st.lists(st.integers(0, 300), min_size=1, max_size=5).map(tuple)
turns = st.lists(st.tuples(part, part), min_size=1, max_size=5)
Turns = list[tuple[tuple[int, ...], tuple[int, ...]]]


def sequence(said: Turns) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    ids: tuple[int, ...] = ()
    spans = []
    for prompt, completion in said:
        ids += prompt + completion
        spans.append((len(ids) - len(completion), len(ids)))
    return ids, spans


@given(turns)
def test_a_sequence_put_together_and_taken_apart_is_the_same(said: Turns) -> None:
    ids, spans = sequence(said)
    completions = tuple(token for _, completion in said for token in completion)
    logprobs = [-float(place) for place in range(len(completions))]
    sample = assemble(
        ids, spans, logprobs, row=4, reward=0.5, truncated=True, text="t", weight_version=2
    )
    assert sample.token_ids == ids
    assert sample.spans == tuple(spans)
    assert sample.prompt_ids == said[0][0]
    assert sample.completion_ids == completions
    assert sample.logprobs == tuple(logprobs)
    assert (sample.row, sample.reward, sample.truncated) == (4, 0.5, True)
    assert (sample.text, sample.weight_version) == ("t", 2)
    assert pickle.loads(pickle.dumps(sample)) == sample  # noqa: S301
    if isinstance(sample, MultiTurnSample):
        assert [ids for _, ids in sample.insertions] == [prompt for prompt, _ in said[1:]]
    else:
        assert len(said) == 1


def test_a_sample_of_one_turn_has_the_fields_that_it_always_had() -> None:
    sample = assemble([1, 2, 3], [(1, 3)], [-1.0, -2.0], row=0, reward=1.0, truncated=False)
    assert type(sample) is Sample
    assert dataclasses.asdict(sample) == {
        "row": 0,
        "prompt_ids": (1,),
        "completion_ids": (2, 3),
        "logprobs": (-1.0, -2.0),
        "reward": 1.0,
        "truncated": False,
        "text": "",
        "weight_version": None,
    }


def test_completions_that_touch_are_one() -> None:
    sample = assemble([1, 2, 3], [(1, 2), (2, 3)], [-1.0] * 2, row=0, reward=0.0, truncated=False)
    assert type(sample) is Sample
    assert sample.spans == ((1, 3),)


@pytest.mark.parametrize(
    "spans",
    [[], [(0, 4)], [(1, 3)], [(1, 5)], [(2, 2), (3, 4)], [(1, 3), (2, 4)], [(3, 4), (1, 2)]],
)
def test_spans_that_do_not_end_the_sequence_are_refused(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="row 7: spans"):
        assemble([1, 2, 3, 4], spans, [-1.0] * 3, row=7, reward=0.0, truncated=False)


def test_a_log_probability_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="2 completion tokens but 1 log-prob"):
        assemble([1, 2, 3, 4], [(1, 2), (3, 4)], [-1.0], row=0, reward=0.0, truncated=False)


@pytest.mark.parametrize(
    "insertions", [(), ((0, (9,)),), ((2, (9,)),), ((1, ()),), ((1, (9,)), (1, (9,)))]
)
def test_insertions_that_are_not_between_turns_are_refused(
    insertions: tuple[tuple[int, tuple[int, ...]], ...],
) -> None:
    with pytest.raises(ValueError, match="not prompt tokens between turns"):
        MultiTurnSample(0, (1,), (2, 3), (-1.0, -1.0), 0.0, truncated=False, insertions=insertions)
