from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from posttrain.checksum import state_checksum
from posttrain.errors import StackError
from posttrain.model.load import load_model
from posttrain.sampling import BACKENDS, Distribution, Shaping, recomputed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample

OWN = Distribution()


@pytest.fixture(scope="module")
def samples(make_sample: Callable[..., Sample]) -> list[Sample]:
    return [
        make_sample(0, "2 + 2 = \\boxed{4}"),
        make_sample(1, "3 + 5 = \\boxed{7}"),
        make_sample(0, "four"),
    ]


def old(samples: Sequence[Sample]) -> list[list[float]]:
    return [list(sample.logprobs) for sample in samples]


def spread(samples: Sequence[Sample], advantages: Sequence[float]) -> list[list[float]]:
    pairs = zip(samples, advantages, strict=True)
    return [[advantage] * len(sample.completion_ids) for sample, advantage in pairs]


def reference_step(
    folder: Path, samples: Sequence[Sample], advantages: Sequence[float], options: PolicyOptions
) -> tuple[dict[str, torch.Tensor], float, float]:
    """Take one AdamW step in one process, sequence by sequence and without padding."""
    model = load_model(folder)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=options.learning_rate,
        eps=options.adam_epsilon,
        weight_decay=options.weight_decay,
    )
    tokens = sum(len(sample.completion_ids) for sample in samples)
    loss = torch.zeros(())
    for sample, advantage in zip(samples, advantages, strict=True):
        ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
        scores = model(ids).logits[0, len(sample.prompt_ids) - 1 : -1].log_softmax(-1)
        chosen = scores[torch.arange(len(scores)), torch.tensor(sample.completion_ids)]
        ratio = (chosen - torch.tensor(sample.logprobs)).exp()
        loss = loss - (ratio * advantage).sum() / tokens
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options.max_grad_norm)
    optimizer.step()
    return dict(model.state_dict()), float(loss.detach()), float(norm)


def all_logprobs(results: list[list[Any]], call: int) -> list[list[float]]:
    return [values for rank in results for values in rank[call]]


def test_two_ranks_take_the_step_that_one_plain_process_takes(
    ranks: Any, options: PolicyOptions, samples: list[Sample], tiny_llama: Path, tmp_path: Path
) -> None:
    advantages = [1.0, -0.5, 0.25]
    published = tmp_path / "weights.safetensors"
    first, second = ranks.run(
        options,
        ("train_step", samples, spread(samples, advantages), old(samples), OWN),
        ("save_state", published),
    )
    expected, loss, norm = reference_step(tiny_llama, samples, advantages, options)

    assert first[0] == second[0]
    assert first[0]["loss"] == pytest.approx(loss, rel=1e-5)
    assert first[0]["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert first[0]["lr"] == options.learning_rate
    assert first[0]["optimizer_steps"] == 1
    assert first[0]["clip_fraction"] == 0
    weights = load_file(published)
    before = load_model(tiny_llama).state_dict()
    assert first[1] == sorted(expected)
    assert second[1] == []
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, atol=1e-7, rtol=1e-6)
    moved = max(float((weights[name] - before[name]).abs().max()) for name in weights)
    assert moved > 1e-4


def test_a_step_makes_praised_answers_likelier_and_blamed_ones_less_likely(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    for advantages in ([1.0, -1.0], [-1.0, 1.0]):
        pair = samples[:2]
        results = ranks.run(
            options,
            ("logprobs", pair, OWN),
            ("train_step", pair, spread(pair, advantages), old(pair), OWN),
            ("logprobs", pair, OWN),
        )
        before, after = all_logprobs(results, 0), all_logprobs(results, 2)
        for values, moved, advantage in zip(before, after, advantages, strict=True):
            assert (sum(moved) - sum(values)) * advantage > 1e-3


def test_gradients_beyond_the_limit_are_scaled_to_it_and_reported_unscaled(
    ranks: Any, options: PolicyOptions, samples: list[Sample], tiny_llama: Path, tmp_path: Path
) -> None:
    # Steps of AdamW with a great epsilon are nearly proportional to the gradient.
    moves, norms = [], []
    original = load_file(tiny_llama / "model.safetensors")
    for limit in (100.0, 1e-6):
        own = dataclasses.replace(options, max_grad_norm=limit, adam_epsilon=1e3)
        published = tmp_path / f"{limit}.safetensors"
        first, _ = ranks.run(
            dataclasses.replace(own, learning_rate=1e6, weight_decay=0.0),
            ("train_step", samples, spread(samples, [1.0, -1.0, 0.5]), old(samples), OWN),
            ("save_state", published),
        )
        norms.append(first[0]["grad_norm"])
        moved = load_file(published)
        moves.append(
            math.sqrt(sum(float((moved[n] - original[n]).double().square().sum()) for n in moved))
        )
    assert norms[0] == norms[1] > 0.1
    # lr / epsilon times the gradient's norm, which the limit replaces.
    assert moves[0] == pytest.approx(1e3 * norms[0], rel=0.02)
    assert moves[1] == pytest.approx(1e3 * 1e-6, rel=0.02)


def test_ranks_that_load_at_different_speeds_need_only_the_patience_of_the_start(
    ranks: Any, options: PolicyOptions
) -> None:
    impatient = dataclasses.replace(options, collective_timeout_s=1.0, start_timeout_s=60.0)
    first, _ = ranks.run(impatient, ("checksum",), late_s=3.0)
    assert len(first[0]) == 64


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("micro_batch_size", [1, 8])
def test_any_number_of_samples_is_divided_among_the_ranks(
    ranks: Any,
    options: PolicyOptions,
    samples: list[Sample],
    count: int,
    micro_batch_size: int,
) -> None:
    chosen, advantages = samples[-count:], [1.0, -0.5, 0.25][-count:]
    first, second = ranks.run(
        dataclasses.replace(options, micro_batch_size=micro_batch_size),
        ("logprobs", chosen, OWN),
        ("train_step", chosen, spread(chosen, advantages), old(chosen), OWN),
    )
    _, loss, norm = reference_step(options.model, chosen, advantages, options)
    for values, sample in zip(all_logprobs([first, second], 0), chosen, strict=True):
        assert values == pytest.approx(sample.logprobs, abs=2e-6)
    assert first[1] == second[1]
    assert first[1]["loss"] == pytest.approx(loss, rel=1e-5)
    assert first[1]["grad_norm"] == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.005, 0.6, 1.0])
def test_logprobs_are_those_of_a_plain_float64_forward_pass(
    ranks: Any,
    options: PolicyOptions,
    samples: list[Sample],
    reference: PreTrainedModel,
    temperature: float,
) -> None:
    drawn_from = recomputed(Shaping(temperature), BACKENDS["vllm"])
    results = ranks.run(options, ("logprobs", samples, drawn_from))
    divisor = {0.0: 1.0, 0.005: 0.01}.get(temperature, temperature)
    for values, sample in zip(all_logprobs(results, 0), samples, strict=True):
        with torch.no_grad():
            logits = reference(torch.tensor([sample.prompt_ids + sample.completion_ids])).logits[0]
        scores = (logits[len(sample.prompt_ids) - 1 : -1] / divisor).log_softmax(-1)
        expected = [
            float(line[token]) for line, token in zip(scores, sample.completion_ids, strict=True)
        ]
        assert values == pytest.approx(expected, rel=2e-6, abs=2e-6)


def test_checksums_speak_of_the_whole_model_and_change_with_a_step(
    ranks: Any, options: PolicyOptions, samples: list[Sample], tiny_llama: Path, tmp_path: Path
) -> None:
    published = tmp_path / "weights.safetensors"
    first, second = ranks.run(
        options,
        ("checksum",),
        ("train_step", samples, spread(samples, [1.0, -1.0, 0.0]), old(samples), OWN),
        ("checksum",),
        ("save_state", published),
        ("checksum",),
    )
    assert first[0] == state_checksum(load_file(tiny_llama / "model.safetensors").items())
    assert first[2] != first[0]
    assert first[2] == first[4] == state_checksum(load_file(published).items())
    assert second[0] == ""


def test_two_runs_give_the_same_bits(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    step = ("train_step", samples, spread(samples, [1.0, -1.0, 0.5]), old(samples), OWN)
    calls = (("logprobs", samples, OWN), step, step, ("checksum",))
    runs = [ranks.run(options, *calls) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][0][2]["optimizer_steps"] == 1


def test_recomputed_logprobs_make_every_ratio_exactly_one(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    pair = samples[:2]  # equally many tokens, opposite advantages
    recomputed = all_logprobs(ranks.run(options, ("logprobs", pair, OWN)), 0)
    (first, _) = ranks.run(
        options, ("train_step", pair, spread(pair, [1.0, -1.0]), recomputed, OWN)
    )
    assert first[0]["loss"] == 0
    assert first[0]["grad_norm"] > 0.01


def test_tokens_beyond_the_clip_are_counted_and_give_no_gradient(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    pair = samples[:2]
    likelier = [[value - 1.0 for value in row] for row in old(pair)]  # every ratio is e
    (first, _) = ranks.run(options, ("train_step", pair, spread(pair, [1.0, 1.0]), likelier, OWN))
    assert first[0]["clip_fraction"] == 1
    assert first[0]["loss"] == pytest.approx(-1.2)
    assert first[0]["grad_norm"] == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_never_stepped(
    ranks: Any, options: PolicyOptions, samples: list[Sample], bad: float
) -> None:
    good = old(samples)
    broken = [[bad, *good[0][1:]], *good[1:]]
    first, second = ranks.run(
        options,
        ("checksum",),
        ("train_step", samples, spread(samples, [1.0, bad, 0.5]), broken, OWN),
        ("checksum",),
        ("train_step", samples, spread(samples, [1.0, -1.0, 0.5]), good, OWN),
    )
    untouched, _ = ranks.run(
        options, ("train_step", samples, spread(samples, [1.0, -1.0, 0.5]), good, OWN)
    )
    for rank in (first, second):
        assert isinstance(rank[1], StackError)
        assert "no step was taken" in str(rank[1])
        assert rank[0] == rank[2]
    assert first[3] == untouched[0]


def test_inputs_that_do_not_belong_together_are_refused(
    ranks: Any, options: PolicyOptions, samples: list[Sample]
) -> None:
    first, second = ranks.run(
        options,
        ("train_step", samples, [[1.0]], old(samples), OWN),
        ("train_step", samples, spread(samples, [1.0, 1.0, 1.0]), old(samples)[::-1], OWN),
        ("train_step", [], [], [], OWN),
    )
    for error in (*first, *second):
        assert isinstance(error, StackError)
        assert "one advantage and one old" in str(error)


def test_bfloat16_is_computed_with_and_published_while_float32_takes_the_steps(
    ranks: Any, options: PolicyOptions, samples: list[Sample], tiny_llama: Path, tmp_path: Path
) -> None:
    advantages = [1.0, -0.5, 0.25]
    published = tmp_path / "weights.safetensors"
    # Near 1, bfloat16 loses every single change of 0.001; float32 adds eight of them up.
    small = dataclasses.replace(options, dtype="bfloat16", learning_rate=1e-3, adam_epsilon=1e-8)
    step = ("train_step", samples, spread(samples, advantages), old(samples), OWN)
    results = ranks.run(
        small,
        ("checksum",),
        ("logprobs", samples, OWN),
        *[step] * 8,
        ("save_state", published),
    )
    original = load_file(tiny_llama / "model.safetensors")
    rounded = {name: tensor.bfloat16() for name, tensor in original.items()}
    assert results[0][0] == state_checksum(rounded.items())
    for values, sample in zip(all_logprobs(results, 1), samples, strict=True):
        assert values == pytest.approx(sample.logprobs, rel=0.05, abs=0.05)
        assert values != pytest.approx(sample.logprobs, abs=1e-5)
    weights = load_file(published)
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    moved = (weights["model.norm.weight"] - rounded["model.norm.weight"]).abs()
    assert float(rounded["model.norm.weight"].min()) > 0.5
    assert float(moved.max()) >= 2**-8


def test_weights_that_share_memory_are_published_once_and_stay_tied(
    ranks: Any, options: PolicyOptions, samples: list[Sample], tiny_llama: Path, tmp_path: Path
) -> None:
    untied = load_model(tiny_llama)
    untied.config.tie_word_embeddings = True
    untied.tie_weights()
    untied.save_pretrained(tmp_path / "tied")
    names = sorted(load_file(tmp_path / "tied" / "model.safetensors"))
    published = tmp_path / "weights.safetensors"
    advantages = [1.0, -0.5, 0.25]
    tied = dataclasses.replace(options, model=tmp_path / "tied")
    recomputed = all_logprobs(ranks.run(tied, ("logprobs", samples, OWN)), 0)
    scored = [
        dataclasses.replace(sample, logprobs=tuple(values))
        for sample, values in zip(samples, recomputed, strict=True)
    ]
    first, _ = ranks.run(
        tied,
        ("train_step", scored, spread(scored, advantages), recomputed, OWN),
        ("save_state", published),
    )
    expected, _, norm = reference_step(tied.model, scored, advantages, tied)
    weights = load_file(published)
    assert "lm_head.weight" not in names
    assert first[1] == sorted(weights) == names
    assert first[0]["grad_norm"] == pytest.approx(norm, rel=1e-5)
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=1e-5)


def test_handing_memory_over_means_nothing_where_the_policy_computes_on_the_host(
    ranks: Any, options: PolicyOptions
) -> None:
    first, _ = ranks.run(options, ("checksum",), ("to_host",), ("to_device",), ("checksum",))
    assert first[0] == first[3]


def test_one_step_of_the_size_that_jobs_take_keeps_the_greedy_answers(
    ranks: Any, options: PolicyOptions, samples: list[Sample], tmp_path: Path, tiny_llama: Path
) -> None:
    pair = samples[:2]
    jobs = dataclasses.replace(options, learning_rate=1e-3, adam_epsilon=1e-8)
    published = tmp_path / "weights.safetensors"
    ranks.run(
        jobs,
        ("train_step", pair, spread(pair, [1.0, -1.0]), old(pair), OWN),
        ("save_state", published),
    )
    model = load_model(tiny_llama)
    model.load_state_dict(load_file(published))
    for sample in pair:
        with torch.no_grad():
            logits = model(torch.tensor([sample.prompt_ids + sample.completion_ids])).logits[0]
        scores = logits[len(sample.prompt_ids) - 1 : -1]
        assert scores.argmax(-1).tolist() == list(sample.completion_ids)
        lead = scores.topk(2, dim=-1).values
        assert float((lead[:, 0] - lead[:, 1]).min()) > 2
