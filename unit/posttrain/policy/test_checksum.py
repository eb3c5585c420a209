from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.checksum import state_checksum, tensor_digest
from posttrain.sample import Sample

STATE = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "b": torch.tensor([1.0, -2.0], dtype=torch.bfloat16),
    "scalar": torch.tensor(3.0),
    "empty": torch.empty(0, 4),
}


def test_the_checksum_is_of_name_type_shape_and_bytes() -> None:
    weight = torch.tensor([[1.0, 2.0]])
    own = hashlib.sha256(bytes.fromhex("0000803f00000040")).hexdigest()
    content = f"w\0float32\0(1, 2)\0{own}\n".encode()
    assert tensor_digest(weight) == own
    assert state_checksum([("w", weight)]) == hashlib.sha256(content).hexdigest()


@given(st.permutations(sorted(STATE)))
def test_the_order_of_tensors_does_not_matter(names: list[str]) -> None:
    assert state_checksum((n, STATE[n]) for n in names) == state_checksum(STATE.items())


def test_the_layout_in_memory_does_not_matter() -> None:
    transposed = STATE["a"].t().contiguous().t()
    assert not transposed.is_contiguous()
    assert state_checksum([("a", transposed)]) == state_checksum([("a", STATE["a"])])


@pytest.mark.parametrize(
    "changed",
    [
        {"a": STATE["a"].reshape(3, 2)},
        {"a": STATE["a"].double()},
        {"a": STATE["a"].nextafter(torch.tensor(9.0))},
        {"empty": torch.empty(4, 0)},
        {"c": torch.empty(0)},
    ],
)
def test_any_change_shows(changed: dict[str, torch.Tensor]) -> None:
    assert state_checksum({**STATE, **changed}.items()) != state_checksum(STATE.items())


def test_a_tensor_of_many_parts_is_digested_whole() -> None:
    long = torch.arange(600_001, dtype=torch.float32)
    assert tensor_digest(long) == hashlib.sha256(long.numpy().tobytes()).hexdigest()


def test_a_negative_zero_counts_as_zero() -> None:
    assert tensor_digest(torch.tensor([-0.0])) == tensor_digest(torch.tensor([0.0]))


def test_a_name_that_appears_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' appears twice"):
        state_checksum([("a", STATE["a"]), ("a", STATE["a"])])


@pytest.mark.parametrize(
    ("prompt", "completion", "logprobs", "found"),
    [
        ((), (1,), (0.0,), "needs prompt and completion"),
        ((1,), (), (), "needs prompt and completion"),
        ((1,), (1, 2), (0.0,), "2 completion tokens but 1 log-prob"),
    ],
)
def test_a_sample_that_cannot_be_trained_on_is_refused(
    prompt: tuple[int, ...], completion: tuple[int, ...], logprobs: tuple[float, ...], found: str
) -> None:
    with pytest.raises(ValueError, match=f"row 7: .*{found}"):
        Sample(7, prompt, completion, logprobs, 0.0, truncated=False)
