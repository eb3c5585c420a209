"""The policy's optimizer, with its learning rate over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from posttrain.policy.schedule import make_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch.optim.lr_scheduler import LambdaLR

    from posttrain.policy.options import PolicyOptions


def make_optimizer(
    parameters: Iterable[torch.nn.Parameter], options: PolicyOptions
) -> tuple[torch.optim.AdamW, LambdaLR]:
    """AdamW and its scheduler, both at the first step."""
    optimizer = torch.optim.AdamW(
        parameters,
        lr=options.learning_rate,
        betas=options.betas,
        eps=options.adam_epsilon,
        weight_decay=options.weight_decay,
    )
    return optimizer, make_scheduler(optimizer, options.schedule)
