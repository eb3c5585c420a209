"""Whether what an environment answered is a measurement at all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def flaw(answer: Mapping[str, Any]) -> str:
    """Say why the answer's ``reward`` measures nothing; an empty text when it does.

    It must be a finite number, and the environment must not take it back (``mask_sample``), as
    Gym's do when a judge or a tool of theirs failed.
    """
    if answer.get("mask_sample"):
        reason = answer.get("failure_reason") or answer.get("failure_kind") or "no reason given"
        return f"the environment masked the sample: {reason}"
    if "reward" not in answer:
        return "no reward at all instead of a finite number"
    reward = answer["reward"]
    number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not number or not math.isfinite(reward):
        return f"reward {reward!r} instead of a finite number"
    return ""
