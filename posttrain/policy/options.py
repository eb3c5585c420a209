"""What decides how the policy trains; light enough for a process without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posttrain.errors import RecipeError
from posttrain.policy.schedule import Schedule
from posttrain.sampling import PATHS

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class PolicyOptions:
    """The policy's settings, the same for all ranks.

    Attributes:
        model: the resolved model folder (see `posttrain.model.revision`).
        ranks: FSDP2 ranks among which parameters and samples are divided.
        device: `cpu` (gloo) or `cuda` (nccl, one accelerator a rank).
        dtype: `float32` or `bfloat16`: in what weights are computed with, published and counted in
            checksums, as generation holds them. The optimizer's own copy is always float32.
        host: address at which the other ranks reach rank 0.
        learning_rate: AdamW's learning rate.
        schedule: what it is multiplied by at each step.
        weight_decay: AdamW's decoupled weight decay.
        betas: AdamW's decay rates of the moments.
        adam_epsilon: AdamW's epsilon.
        max_grad_norm: gradients with a greater global norm are scaled down to it.
        clip_low: how far below 1 a probability ratio counts.
        clip_high: how far above 1 a probability ratio counts.
        micro_batch_size: sequences in one forward pass of a rank.
        logprobs: how log-probabilities are computed, one of `posttrain.sampling.PATHS`.
        logprobs_chunk: completion tokens whose logits exist at a time, for the path `fused`.
        seed: seed of the rank's random generators.
        threads: OpenMP threads of a rank. One by default: spinning threads that share a core with
            another process are slower than no threads at all.
        start_timeout_s: how long a rank waits for the slowest one to import and load, in seconds.
        collective_timeout_s: how long a collective waits for the slowest rank, in seconds.
        reference: whether each rank also keeps its part of the start weights, frozen.
    """

    model: Path
    ranks: int = 2
    device: str = "cpu"
    dtype: str = "float32"
    host: str = "127.0.0.1"
    learning_rate: float = 1e-5
    schedule: Schedule = field(default_factory=Schedule)
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    micro_batch_size: int = 8
    logprobs: str = "plain"
    logprobs_chunk: int = 1024
    seed: int = 0
    threads: int = 1
    start_timeout_s: float = 120.0
    collective_timeout_s: float = 60.0
    reference: bool = False

    def __post_init__(self) -> None:
        _require("device", self.device, "cpu or cuda", holds=self.device in {"cpu", "cuda"})
        dtypes = {"float32", "bfloat16"}
        _require("dtype", self.dtype, "float32 or bfloat16", holds=self.dtype in dtypes)
        _require("logprobs", self.logprobs, " or ".join(PATHS), holds=self.logprobs in PATHS)
        for name in ("ranks", "micro_batch_size", "logprobs_chunk", "threads"):
            value = getattr(self, name)
            _require(name, value, "a whole number of at least 1", holds=value >= 1)
        positive = ("learning_rate", "max_grad_norm", "adam_epsilon")
        for name in (*positive, "start_timeout_s", "collective_timeout_s"):
            value = getattr(self, name)
            _require(name, value, "finite and positive", holds=math.isfinite(value) and value > 0)
        _require(
            "weight_decay",
            self.weight_decay,
            "finite and not negative",
            holds=math.isfinite(self.weight_decay) and self.weight_decay >= 0,
        )
        _require("clip_low", self.clip_low, "above 0 and at most 1", holds=0 < self.clip_low <= 1)
        _require(
            "clip_high",
            self.clip_high,
            "finite and positive",
            holds=math.isfinite(self.clip_high) and self.clip_high > 0,
        )


def _require(name: str, value: object, rule: str, *, holds: bool) -> None:
    if not holds:
        raise RecipeError(
            asked=f"policy option {name}: {rule}",
            found=repr(value),
            todo="correct the recipe's policy section",
        )
