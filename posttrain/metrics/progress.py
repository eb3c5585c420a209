"""One line for people after each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What is said of a step, in this order, where it was recorded.
SAID = (
    ("train/reward/mean", "reward {:.3f}"),
    ("validation/accuracy", "validation {:.3f}"),
    ("train/loss", "loss {:+.2e}"),
    ("train/grad_norm", "gradient norm {:.3g}"),
    ("train/token_mult_prob_error", "parity {:.7f}"),
    ("timing/step", "{:.2f} s"),
)


def progress(step: int, steps: int, metrics: Mapping[str, float | str]) -> str:
    """Say how a step went.

    Args:
        step: its number, from 1.
        steps: how many the run takes.
        metrics: the step's own, by name.

    Returns:
        A line such as `step 3 of 60: reward 0.250, loss -1.00e-02, 2.00 s`.
    """
    said = [form.format(metrics[name]) for name, form in SAID if name in metrics]
    return f"step {step} of {steps}: {', '.join(said)}"
