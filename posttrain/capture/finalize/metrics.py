"""What a step's finalized rollouts say of capture, by the names of the metrics ``capture/*``."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from posttrain.capture.finalize.causes import poisons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.capture.finalize.words import Finalized


def capture_metrics(finalized: Sequence[Finalized]) -> dict[str, float]:
    """Metrics of the rollouts of a step; what nothing was measured of has no value.

    So a step without a continuation has no ``capture/token_in_rate``, and a contract that asks for
    it fails.
    """
    causes = Counter(each.cause for each in finalized if each.cause is not None)
    seconds = [each.seconds for each in finalized if each.sample is not None]
    continuations = sum(each.continuations for each in finalized)
    metrics: dict[str, float] = {
        "capture/rows": len(seconds),
        "capture/placeholders": causes.total(),
        "capture/continuations": continuations,
        "capture/staged_bytes": sum(each.staged_bytes for each in finalized),
    }
    metrics |= {f"capture/placeholders/{cause}": count for cause, count in sorted(causes.items())}
    metrics |= {
        f"capture/poisoned/{cause}": count
        for cause, count in sorted(causes.items())
        if poisons(cause)
    }
    if continuations:
        token_in = sum(each.token_in for each in finalized)
        metrics["capture/token_in_rate"] = token_in / continuations
    if seconds:
        metrics |= {
            "capture/seal_to_row_seconds/p50": _percentile(seconds, 50),
            "capture/seal_to_row_seconds/p99": _percentile(seconds, 99),
            "capture/seal_to_row_seconds/max": max(seconds),
        }
    return metrics


def _percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[rank - 1]
