"""What a single controller counts, and the metrics that it makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean


@dataclass
class Counts:
    """What happened since the counts were last taken; docs/metrics.md says what each is.

    Attributes:
        reserved: groups.
        committed: groups.
        trained: groups.
        dropped: prompts.
        dropped_stale: prompts, of those.
        retried: groups.
        replaced: groups.
        placeholders: rollouts of trained groups.
        in_flight: most rollouts in flight.
        staleness: versions that each trained group was behind the policy's weights.
    """

    reserved: int = 0
    committed: int = 0
    trained: int = 0
    dropped: int = 0
    dropped_stale: int = 0
    retried: int = 0
    replaced: int = 0
    placeholders: int = 0
    in_flight: int = 0
    staleness: list[int] = field(default_factory=list)

    def metrics(self) -> dict[str, float | str]:
        """The metrics ``controller/*`` of a step that trained at least one group."""
        return {
            "controller/groups_reserved": self.reserved,
            "controller/groups_committed": self.committed,
            "controller/groups_trained": self.trained,
            "controller/dropped_prompts": self.dropped,
            "controller/dropped_stale": self.dropped_stale,
            "controller/retries_infrastructure": self.retried,
            "controller/retries_data": self.replaced,
            "controller/placeholders": self.placeholders,
            "controller/rollouts_in_flight_max": self.in_flight,
            "controller/staleness_mean": fmean(self.staleness),
            "controller/staleness_max": max(self.staleness),
        }
