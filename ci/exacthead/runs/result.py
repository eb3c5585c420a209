"""What is kept of one item: its verdict and the facts behind it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from exacthead.verdict import Verdict  # noqa: TC001 - pydantic reads the annotation


class ItemResult(BaseModel):
    """result.json of an item.

    Attributes:
        item_id: the item's name as the plan gives it.
        verdict: the last word on it.
        required: whether the run is red when this item is not green.
        returncode: the script's, None when it never ran; negative for a signal.
        signal: the signal's name when one ended it.
        seconds: wall time.
        started: Unix time; None when it was not started.
        peak_pss_mb: the highest sampled proportional set size of its whole process tree, in MiB.
        leftovers: what it left behind, a sentence each.
        notes: what is worth knowing and is not its fault.
        reproduction: one line that runs exactly this item again.
        workers: the names of the workers that it ran in.
        stages: seconds by stage, in order.
        details: Markdown shown below the item in the summary (a contract's table).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item_id: str
    verdict: Verdict
    required: bool = True
    returncode: int | None = None
    signal: str | None = None
    seconds: float = 0.0
    started: float | None = None
    peak_pss_mb: float = 0.0
    leftovers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reproduction: str = ""
    workers: tuple[str, ...] = ()
    stages: dict[str, float] = {}
    details: tuple[str, ...] = ()
