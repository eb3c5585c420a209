from __future__ import annotations

import math
from pathlib import Path

import pytest

from posttrain.errors import RecipeError
from posttrain.policy.options import PolicyOptions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device", "tpu"),
        ("dtype", "float16"),
        ("ranks", 0),
        ("micro_batch_size", 0),
        ("logprobs", "fast"),
        ("logprobs_chunk", 0),
        ("threads", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("weight_decay", -0.1),
        ("max_grad_norm", 0.0),
        ("adam_epsilon", 0.0),
        ("clip_low", 0.0),
        ("clip_low", 1.5),
        ("clip_high", math.inf),
        ("collective_timeout_s", 0.0),
    ],
)
def test_an_option_that_cannot_train_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(RecipeError) as caught:
        PolicyOptions(Path("model"), **{name: value})
    assert name in caught.value.asked
    assert caught.value.found == repr(value)
