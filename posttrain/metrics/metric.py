"""What one metric is: its name, unit, meaning and formula."""

from __future__ import annotations

import re
from dataclasses import dataclass

TEXT = "text"
SECONDS = "seconds"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: its name; ``<n>`` stands for a number from 0, ``<verifier>`` for a verifier's name,
            ``<cause>`` for a cause's.
        unit: ``text`` marks a metric that is no number.
        meaning: what it says.
        formula: how it is computed; empty where the meaning says it all.
    """

    name: str
    unit: str
    meaning: str
    formula: str = ""

    def matches(self, name: str) -> bool:
        """Whether ``name`` is this metric."""
        pattern = re.escape(self.name).replace("<n>", "(0|[1-9][0-9]*)")
        pattern = pattern.replace("<verifier>", "[a-z0-9_]+").replace("<cause>", "[a-z0-9_]+")
        return re.fullmatch(pattern, name) is not None


def three(name: str, unit: str, meaning: str, formula: str = "") -> list[Metric]:
    """Smallest, largest and mean of something."""
    return [
        Metric(f"{name}/min", unit, f"smallest {meaning}", formula),
        Metric(f"{name}/max", unit, f"largest {meaning}", formula),
        Metric(f"{name}/mean", unit, f"mean {meaning}", formula),
    ]
