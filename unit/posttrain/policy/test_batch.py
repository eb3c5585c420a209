from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.policy.batch import make_batch, passes, split
from posttrain.sample import MultiTurnSample, Sample, assemble

CPU = torch.device("cpu")
token_ids = st.lists(st.integers(0, 259), min_size=1, max_size=6).map(tuple)
one_turn = st.builds(
    lambda prompt, completion: Sample(
        0, prompt, completion, (-1.0,) * len(completion), 0.0, truncated=False
    ),
    token_ids,
    token_ids,
)


def conversation(turns: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Sample:
    """The sample of a sequence of (prompt part, completion), one a turn."""
    ids: tuple[int, ...] = ()
    spans = []
    for prompt, completion in turns:
        ids += prompt + completion
        spans.append((len(ids) - len(completion), len(ids)))
    logprobs = [-1.0] * sum(end - start for start, end in spans)
    return assemble(ids, spans, logprobs, row=0, reward=0.0, truncated=False)


turns = st.lists(st.tuples(token_ids, token_ids), min_size=1, max_size=4)
sample_lists = st.lists(one_turn | turns.map(conversation), min_size=1, max_size=5)


@given(st.integers(0, 50), st.integers(1, 9))
def test_every_sample_goes_to_exactly_one_rank_and_ranks_are_even(count: int, ranks: int) -> None:
    parts = split(count, ranks)
    assert [index for part in parts for index in part] == list(range(count))
    assert len(parts) == ranks
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 50), st.integers(1, 9), st.integers(1, 9))
def test_all_ranks_make_equally_many_passes_over_all_their_samples(
    count: int, ranks: int, size: int
) -> None:
    plans = [passes(part, count, ranks, size) for part in split(count, ranks)]
    assert len({len(plan) for plan in plans}) == 1
    assert [i for plan in plans for part in plan for i in part] == list(range(count))
    assert all(len(part) <= size for plan in plans for part in plan)


@given(sample_lists)
def test_the_mask_shows_exactly_the_completion_tokens(samples: list[Sample]) -> None:
    batch = make_batch(samples, CPU)
    assert batch.mask.shape == batch.targets.shape
    for index, sample in enumerate(samples):
        assert tuple(batch.targets[index][batch.mask[index]].tolist()) == sample.completion_ids
        whole = sample.token_ids
        assert tuple(batch.input_ids[index, : len(whole)].tolist()) == whole
        first = int(batch.mask[index].nonzero()[0])
        assert first == len(sample.prompt_ids) - 1
    assert int(batch.mask.sum()) == sum(len(sample.completion_ids) for sample in samples)


@given(turns)
def test_prompt_tokens_between_turns_are_in_the_sequence_and_never_in_the_mask(
    turns: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    sample = conversation(turns)
    assert isinstance(sample, MultiTurnSample) == (len(turns) > 1)
    batch = make_batch([sample], CPU)
    expected = [own for prompt, done in turns for own in [False] * len(prompt) + [True] * len(done)]
    assert batch.mask[0].tolist() == expected[1:]
    assert batch.input_ids[0].tolist() == [
        token for turn in turns for part in turn for token in part
    ]


@given(sample_lists, st.data())
def test_values_laid_out_and_collected_are_the_same(
    samples: list[Sample], data: st.DataObject
) -> None:
    values = [
        data.draw(st.lists(st.floats(-9, 0, width=32), min_size=size, max_size=size))
        for size in (len(sample.completion_ids) for sample in samples)
    ]
    batch = make_batch(samples, CPU)
    laid_out = batch.spread(values)
    assert batch.collect(laid_out) == values
    assert not laid_out[~batch.mask].any()


def test_a_rank_without_samples_has_a_batch_without_completion_tokens() -> None:
    batch = make_batch([], CPU)
    assert batch.input_ids.shape == (1, 2)
    assert not batch.mask.any()
    assert batch.collect(batch.spread([])) == [[]]
