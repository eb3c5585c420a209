"""Only completion tokens are scored, each by what stands before it, whatever shares its batch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from posttrain.policy import batch as batches
from posttrain.policy.batch import make_batch
from posttrain.policy.loss import Clip, clipped_policy_loss
from posttrain.policy.scoring import Scores, make_scorer
from posttrain.sample import Sample, assemble
from posttrain.sampling import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

CPU = torch.device("cpu")
VOCABULARY = 23
CHUNK = 3
# Sums over another number of positions, in float32.
CLOSE = 1e-5
PATHS = pytest.mark.parametrize("path", ["plain", "fused"])

token_ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6).map(tuple)
one_sample = st.builds(
    lambda prompt, completion, truncated: Sample(
        0, prompt, completion, (-1.0,) * len(completion), 0.0, truncated=truncated
    ),
    token_ids,
    token_ids,
    st.booleans(),
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


several_turns = st.lists(st.tuples(token_ids, token_ids), min_size=2, max_size=3).map(conversation)
some_samples = st.lists(one_sample | several_turns, min_size=1, max_size=4)
LAW = settings(max_examples=25)


def make_model() -> LlamaForCausalLM:
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        attn_implementation="sdpa",
        initializer_range=0.5,
    )
    return LlamaForCausalLM(config).eval()


MODEL = make_model()
SCORERS = {path: make_scorer(path, CHUNK, MODEL) for path in ("plain", "fused")}
for scorer in SCORERS.values():
    scorer.attach(MODEL)


def scored(
    path: str, samples: Sequence[Sample], drawn_from: Sequence[Distribution] | None = None
) -> tuple[Scores, list[list[float]]]:
    batch = make_batch(samples, CPU, drawn_from)
    found = SCORERS[path](MODEL, batch)
    return found, batch.collect(found.logprobs)


def before_completions(sample: Sample) -> torch.Tensor:
    """The model's logits where each completion token is the next one, of the whole sequence."""
    logits = MODEL(torch.tensor([sample.token_ids])).logits[0]
    return torch.cat([logits[start - 1 : end - 1] for start, end in sample.spans])


@PATHS
@LAW
@given(samples=some_samples)
def test_a_completion_scores_as_if_it_were_alone(path: str, samples: list[Sample]) -> None:
    _, together = scored(path, samples)
    for sample, values in zip(samples, together, strict=True):
        _, (alone,) = scored(path, [sample])
        assert values == pytest.approx(alone, abs=CLOSE)
        with torch.no_grad():
            rows = before_completions(sample).double().log_softmax(-1)
        chosen = torch.tensor(sample.completion_ids).unsqueeze(-1)
        assert values == pytest.approx(rows.gather(-1, chosen).squeeze(-1).tolist(), abs=CLOSE)


@PATHS
@LAW
@given(samples=some_samples)
def test_prompts_and_padding_score_zero_and_give_no_gradient(
    path: str, samples: list[Sample]
) -> None:
    batch = make_batch(samples, CPU)
    found = SCORERS[path](MODEL, batch).logprobs
    assert found.shape == batch.mask.shape
    assert not found[~batch.mask].any()
    MODEL.zero_grad()
    (found * ~batch.mask).sum().backward()
    assert all(each.grad is None or not each.grad.any() for each in MODEL.parameters())


@PATHS
@LAW
@given(samples=some_samples, padding=st.integers(1, VOCABULARY - 1))
def test_what_the_padding_is_changes_neither_scores_nor_gradients(
    path: str, samples: list[Sample], padding: int
) -> None:
    results = []
    for identity in (batches.PADDING_ID, padding):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches, "PADDING_ID", identity)
            MODEL.zero_grad()
            found, values = scored(path, samples)
            found.logprobs.sum().backward()
            results.append((values, [each.grad.clone() for each in MODEL.parameters()]))
    (values, gradients), (other, others) = results
    assert values == other
    for gradient, another in zip(gradients, others, strict=True):
        torch.testing.assert_close(another, gradient, atol=1e-5, rtol=1e-4)


@PATHS
@LAW
@given(samples=some_samples, later=token_ids)
def test_a_token_is_scored_by_what_stands_before_it_alone(
    path: str, samples: list[Sample], later: tuple[int, ...]
) -> None:
    longer = [
        dataclasses.replace(
            sample,
            completion_ids=sample.completion_ids + later,
            logprobs=sample.logprobs + (-1.0,) * len(later),
        )
        for sample in samples
    ]
    _, short = scored(path, samples)
    _, values = scored(path, longer)
    for before, after in zip(short, values, strict=True):
        assert after[: len(before)] == pytest.approx(before, abs=CLOSE)
        assert len(after) == len(before) + len(later)


@PATHS
@LAW
@given(sample=several_turns, data=st.data())
def test_prompt_tokens_between_turns_condition_the_turns_after_them_alone(
    path: str, sample: Sample, data: st.DataObject
) -> None:
    (first, start), *_ = sample.insertions
    other = tuple(data.draw(st.integers(0, VOCABULARY - 1)) for _ in start)
    changed = dataclasses.replace(sample, insertions=((first, other), *sample.insertions[1:]))
    _, (values,) = scored(path, [sample])
    _, (after,) = scored(path, [changed])
    assert after[:first] == pytest.approx(values[:first], abs=CLOSE)
    assert len(after) == len(values) == len(sample.completion_ids)
    if other != start:
        assert after[first:] != values[first:]


@PATHS
@LAW
@given(samples=some_samples)
def test_a_truncated_completion_is_scored_like_any_other_and_no_end_is_invented(
    path: str, samples: list[Sample]
) -> None:
    cut = [dataclasses.replace(sample, truncated=True) for sample in samples]
    whole = [dataclasses.replace(sample, truncated=False) for sample in samples]
    _, of_cut = scored(path, cut)
    _, of_whole = scored(path, whole)
    assert of_cut == of_whole
    assert [len(row) for row in of_cut] == [len(sample.completion_ids) for sample in cut]


@PATHS
@LAW
@given(samples=some_samples, data=st.data())
def test_the_loss_moves_by_completion_tokens_only(
    path: str, samples: list[Sample], data: st.DataObject
) -> None:
    """Garbage in old log-probabilities and advantages of other places changes no gradient."""
    batch = make_batch(samples, CPU)
    garbage = data.draw(st.sampled_from([0.0, 5.0, -1e30, float("inf"), float("nan")]))
    gradients = []
    for elsewhere in (0.0, garbage):
        MODEL.zero_grad()
        found = SCORERS[path](MODEL, batch).logprobs
        old = torch.where(batch.mask, found.detach(), torch.full_like(found, elsewhere))
        advantages = torch.ones_like(found)
        clipped_policy_loss(found, old, advantages, batch.mask, Clip(0.2, 0.2)).total.backward()
        gradients.append([each.grad.clone() for each in MODEL.parameters()])
    for gradient, another in zip(*gradients, strict=True):
        assert torch.equal(gradient, another)


@PATHS
def test_a_rank_without_samples_scores_nothing_and_has_zero_gradients(path: str) -> None:
    MODEL.zero_grad()
    found, values = scored(path, [])
    assert values == [[]]
    assert found.outside.item() == 0
    found.logprobs.sum().backward()
    assert all(each.grad is not None and not each.grad.any() for each in MODEL.parameters())


@LAW
@given(samples=some_samples)
def test_tokens_that_the_filters_leave_out_are_counted_in_completions_only(
    samples: list[Sample],
) -> None:
    greedy = [Distribution(top_k=1)] * len(samples)
    found, _ = scored("plain", samples, greedy)
    _, own = scored("plain", samples)
    expected = 0
    for sample, values in zip(samples, own, strict=True):
        with torch.no_grad():
            best = before_completions(sample).argmax(-1).tolist()
        expected += sum(a != b for a, b in zip(best, sample.completion_ids, strict=True))
        assert len(values) == len(best)
    assert found.outside.item() == expected
