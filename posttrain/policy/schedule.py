"""The learning rate over the optimizer's steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LambdaLR

KINDS = ("constant", "linear", "cosine")


@dataclass(frozen=True)
class Schedule:
    """What the learning rate is multiplied by at each step.

    Attributes:
        kind: after the warm-up: `constant`, or a `linear` or `cosine` fall.
        warmup_steps: steps in which it rises linearly; the last of them is the first at full rate.
        steps: steps until a fall has come to its end, warm-up included; what comes later stays
            there.
        final: what a fall ends at, as a share of the full rate.

    Raises:
        RecipeError: values that make no schedule.
    """

    kind: str = "constant"
    warmup_steps: int = 0
    steps: int = 1
    final: float = 0.0

    def __post_init__(self) -> None:
        falls = self.kind != "constant"
        if self.kind not in KINDS:
            raise _refused(f"kind {self.kind!r}", f"one of {', '.join(KINDS)}")
        if self.warmup_steps < 0 or (falls and self.warmup_steps >= self.steps):
            raise _refused(f"warmup_steps {self.warmup_steps}", f"0 to {self.steps - 1}")
        if not 0 <= self.final <= 1:
            raise _refused(f"final {self.final}", "0 to 1")

    def factor(self, taken: int) -> float:
        """The factor of the step after `taken` steps.

        While it warms up: `(taken + 1) / warmup_steps`. Then, with
        `x = min(1, (taken - warmup_steps) / (steps - warmup_steps))`, `1` (constant),
        `1 - (1 - final) x` (linear) or `final + (1 - final) (1 + cos(pi x)) / 2` (cosine).
        """
        if taken < self.warmup_steps:
            return (taken + 1) / self.warmup_steps
        if self.kind == "constant":
            return 1.0
        x = min(1.0, (taken - self.warmup_steps) / (self.steps - self.warmup_steps))
        if self.kind == "linear":
            return 1.0 - (1.0 - self.final) * x
        return self.final + (1.0 - self.final) * (1.0 + math.cos(math.pi * x)) / 2.0


def make_scheduler(optimizer: Optimizer, schedule: Schedule) -> LambdaLR:
    """Torch's scheduler, which is at the optimizer's first step."""
    from torch.optim.lr_scheduler import LambdaLR

    def factor(taken: int) -> float:
        # Nothing of a plain function is saved with the number of steps: the recipe decides it.
        return schedule.factor(taken)

    return LambdaLR(optimizer, factor)


def advance(scheduler: LambdaLR) -> float:
    """Go on to the next step; returns the learning rate of the one that was taken."""
    rate = float(scheduler.get_last_lr()[0])
    scheduler.step()
    return rate


def _refused(found: str, wanted: str) -> RecipeError:
    return RecipeError(f"policy.schedule: {wanted}", found, "correct the recipe's policy section")
