"""The fused path against the plain one: values, gradients, memory; in one process and on ranks."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Gemma2Config, Gemma2ForCausalLM

from posttrain.errors import ModelError, RecipeError
from posttrain.model.load import load_model
from posttrain.policy.batch import make_batch
from posttrain.policy.fused import Tokens, linear_logprobs
from posttrain.policy.scoring import make_scorer
from posttrain.sampling import Distribution

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import PreTrainedModel

    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample

CPU = torch.device("cpu")
VOCABULARY = 261
HEAD = (64, VOCABULARY)  # the head's weights, transposed


@pytest.fixture(scope="module")
def samples(make_sample: Callable[..., Sample]) -> list[Sample]:
    return [
        make_sample(0, "2 + 2 = \\boxed{4}"),
        make_sample(1, "3 + 5 = \\boxed{7}"),
        make_sample(0, "four"),
    ]


@pytest.fixture
def model(tiny_llama: Path) -> PreTrainedModel:
    return load_model(tiny_llama)


class Logits(TorchDispatchMode):
    """How many tokens' logits, or things of their size, a single tensor holds meanwhile."""

    tokens = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if not isinstance(leaf, torch.Tensor) or leaf.shape[-1:] != (VOCABULARY,):
                continue
            if leaf.shape != HEAD:
                self.tokens = max(self.tokens, leaf.numel() // VOCABULARY)
        return made


@settings(max_examples=30)
@given(
    tokens=st.integers(0, 9),
    vocabulary=st.integers(2, 12),
    chunk=st.integers(1, 10),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_whole_logits_in_float64(
    tokens: int, vocabulary: int, chunk: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, 5, generator=generator).requires_grad_()
    weight = torch.randn(vocabulary, 5, generator=generator).requires_grad_()
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    divisors = torch.tensor([0.6, 1.0, 1.7])[torch.randint(3, (tokens,), generator=generator)]
    upstream = torch.randn(tokens, generator=generator)

    values = linear_logprobs(hidden, weight, Tokens(targets, divisors, chunk))
    values.backward(upstream)
    exact = [hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()]
    logits = exact[0] @ exact[1].T / divisors.double().unsqueeze(-1)
    expected = logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    expected.backward(upstream.double())

    torch.testing.assert_close(values.double(), expected, atol=1e-5, rtol=1e-5)
    for found, wanted in zip((hidden, weight), exact, strict=True):
        assert found.grad is not None
        assert found.grad.dtype == torch.float32
        torch.testing.assert_close(found.grad.double(), wanted.grad, atol=1e-5, rtol=1e-5)


def test_gradients_come_in_the_types_of_weights_and_hidden_states() -> None:
    hidden = torch.randn(4, 8, dtype=torch.bfloat16).requires_grad_()
    weight = torch.randn(6, 8, dtype=torch.bfloat16).requires_grad_()
    values = linear_logprobs(hidden, weight, Tokens(torch.arange(4), torch.ones(4), 2))
    values.sum().backward()
    assert values.dtype == torch.float32
    assert {hidden.grad.dtype, weight.grad.dtype} == {torch.bfloat16}


def test_a_frozen_head_gets_no_gradient() -> None:
    hidden, weight = torch.randn(4, 8).requires_grad_(), torch.randn(6, 8)
    linear_logprobs(hidden, weight, Tokens(torch.arange(4), torch.ones(4), 3)).sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None


@pytest.mark.parametrize("path", ["plain", "fused"])
def test_only_the_plain_path_ever_holds_logits_of_all_tokens(
    model: PreTrainedModel, samples: list[Sample], path: str
) -> None:
    scorer = make_scorer(path, 4, model)
    scorer.attach(model)
    batch = make_batch(samples, CPU)
    with Logits() as logits:
        scorer(model, batch).logprobs.sum().backward()
    assert logits.tokens == {"plain": batch.input_ids.numel(), "fused": 4}[path]
    assert int(batch.mask.sum()) > 4


def test_both_paths_agree_in_one_process(model: PreTrainedModel, samples: list[Sample]) -> None:
    batch = make_batch(samples, CPU, [Distribution(divisor) for divisor in (0.01, 0.6, 1.7)])
    found, gradients = [], []
    for path in ("plain", "fused"):
        scorer = make_scorer(path, 5, model)
        scorer.attach(model)
        model.zero_grad()
        found.append(scorer(model, batch).logprobs)
        found[-1].exp().sum().backward()
        gradients.append({name: each.grad for name, each in model.named_parameters()})
    # Logits of about 20 hold 2e-6; divided by 0.01 that is 2e-4.
    torch.testing.assert_close(found[1], found[0], atol=3e-4, rtol=1e-5)
    torch.testing.assert_close(found[1][1:], found[0][1:], atol=5e-6, rtol=1e-5)
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=2e-4, rtol=1e-3)


def head_with_bias(tiny_llama: Path) -> PreTrainedModel:
    model = load_model(tiny_llama)
    plain = model.lm_head
    model.lm_head = torch.nn.Linear(plain.in_features, plain.out_features)
    return model


def head_that_caps_its_scores(_tiny_llama: Path) -> PreTrainedModel:
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 50}
    config = Gemma2Config(**sizes, **heads, final_logit_softcapping=0.5)
    return Gemma2ForCausalLM(config).eval()


@pytest.mark.parametrize("make", [head_with_bias, head_that_caps_its_scores])
def test_a_model_whose_head_is_more_than_a_matrix_is_refused(
    make: Callable[[Path], PreTrainedModel], tiny_llama: Path
) -> None:
    model = make(tiny_llama)
    with pytest.raises(ModelError, match="the head does more than that"):
        make_scorer("fused", 4, model)
    make_scorer("plain", 4, model)


def on_ranks(
    ranks: Any, options: PolicyOptions, samples: list[Sample], drawn_from: Any, published: Path
) -> tuple[list[list[float]], dict[str, float], dict[str, torch.Tensor]]:
    """Log-probabilities, a step's figures and the weights after it, from two ranks."""
    old = [list(sample.logprobs) for sample in samples]
    weights = [[1.0 - place] * len(row) for place, row in enumerate(old)]
    first, second = ranks.run(
        options,
        ("logprobs", samples, drawn_from),
        ("train_step", samples, weights, old, drawn_from),
        ("save_state", published),
    )
    assert first[1] == second[1]
    return first[0] + second[0], first[1], load_file(published)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_two_ranks_take_the_same_step_by_either_path(
    ranks: Any,
    options: PolicyOptions,
    samples: list[Sample],
    model: PreTrainedModel,
    *,
    tmp_path: Path,
    tied: bool,
    count: int,
) -> None:
    if tied:
        model.config.tie_word_embeddings = True
        model.tie_weights()
    model.save_pretrained(tmp_path / "model")
    # One sample for two ranks; or samples that differ in temperature, and passes of one each.
    drawn_from = Distribution(0.6) if count == 1 else [Distribution(t) for t in (0.6, 1.0, 1.7)]
    own = dataclasses.replace(options, model=tmp_path / "model", micro_batch_size=1)
    results = []
    for path in ("plain", "fused"):
        changed = dataclasses.replace(own, logprobs=path, logprobs_chunk=7)
        published = tmp_path / f"{path}.safetensors"
        results.append(on_ranks(ranks, changed, samples[:count], drawn_from, published))
    (plain, plain_step, plain_weights), (fused, fused_step, fused_weights) = results
    for values, expected in zip(fused, plain, strict=True):
        assert values == pytest.approx(expected, abs=5e-6)
    assert fused_step == pytest.approx(plain_step, rel=1e-5)
    assert fused_step["grad_norm"] > 0.001
    assert ("lm_head.weight" in fused_weights) == (not tied)
    for name, tensor in plain_weights.items():
        torch.testing.assert_close(fused_weights[name], tensor, atol=1e-6, rtol=1e-5)


def test_in_bfloat16_both_paths_round_alike(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    results = []
    for path in ("plain", "fused"):
        own = dataclasses.replace(options, dtype="bfloat16", logprobs=path, logprobs_chunk=7)
        first, second = ranks.run(own, ("logprobs", samples, Distribution(0.6)))
        results.append(first[0] + second[0])
    exact = [value for sample in samples for value in sample.logprobs]
    plain, fused = ([value for row in rows for value in row] for rows in results)
    # Logits of up to 20 are apart by one unit of bfloat16 at most, 0.06 there; divided by 0.6.
    assert fused == pytest.approx(plain, abs=0.12)
    assert fused != pytest.approx(exact, abs=1e-3)


def test_samples_of_several_temperatures_score_as_if_each_had_been_alone(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    each = [Distribution(0.6, 0.9), Distribution(), Distribution(1.7, top_k=5)]
    results = ranks.run(
        options,
        ("logprobs", samples, each),
        *[("logprobs", samples, drawn_from) for drawn_from in each],
        ("logprobs", samples, each[:2]),
    )
    mixed, *alone = [results[0][call] + results[1][call] for call in range(4)]
    for place, values in enumerate(mixed):
        assert values == pytest.approx(alone[place][place], abs=2e-6)
    assert mixed[0] != pytest.approx(alone[1][0], abs=1e-3)
    assert all("2 distributions for 3 samples" in str(rank[4]) for rank in results)


def test_the_fused_path_refuses_filters_on_all_ranks_before_it_computes_anything(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    old = [list(sample.logprobs) for sample in samples]
    # Only the last sample's, which is the second rank's.
    filtered = [Distribution(), Distribution(), Distribution(top_k=5)]
    results = ranks.run(
        dataclasses.replace(options, logprobs="fused"),
        ("checksum",),
        ("logprobs", samples, filtered),
        ("train_step", samples, old, old, filtered),
        ("checksum",),
    )
    for before, *refusals, after in results:
        assert before == after
        for refusal in refusals:
            assert isinstance(refusal, RecipeError)
            assert "by the path 'fused'" in refusal.asked


def test_recomputed_logprobs_make_every_ratio_exactly_one_on_the_fused_path(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    fused = dataclasses.replace(options, logprobs="fused", logprobs_chunk=3)
    first, second = ranks.run(fused, ("logprobs", samples, Distribution(0.6)))
    recomputed = first[0] + second[0]
    weights = [[1.0] * len(row) for row in recomputed]
    call = ("train_step", samples, weights, recomputed, Distribution(0.6))
    (step,), _ = ranks.run(fused, call)
    assert step["loss"] == -1
    assert math.isfinite(step["grad_norm"])
