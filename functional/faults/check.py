"""What a run that had a fault has left, as the metrics of its leg."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from functional.faults.legs import Leg

Metrics = dict[str, int | float | str]
_CAUSE = "capture/placeholders/"
_FORM = re.compile(r"(?s)posttrain: \S.*\n  found: \S.*\n  to do: \S.*\n")


def ending(code: int, printed: str, leg: Leg) -> Metrics:
    """How the run ended, and what it said of it."""
    at = ("\n" + printed).rfind("\nposttrain: ")
    said = match[0] if at >= 0 and (match := _FORM.fullmatch(printed, at)) else ""
    if leg.said:
        named = re.search(leg.said, said) is not None and "Traceback" not in said
    else:
        named = not said
    return {
        "chaos/exit_code": code,
        "chaos/ended_as_expected": int(code == (1 if leg.said else 0)),
        "chaos/cause_named": int(named),
        "chaos/last_word": said,
    }


def trained(folder: Path, leg: Leg, per_prompt: int) -> Metrics:
    """What the run trained on, and what became a placeholder.

    Args:
        folder: the run's.
        leg: its fault.
        per_prompt: rollouts of a group.
    """
    steps, samples = _lines(folder / "metrics.jsonl"), _lines(folder / "samples.jsonl")
    totals: Counter[str] = Counter()
    for step in steps:
        numbers = {name: it for name, it in step.items() if isinstance(it, int)}
        totals.update(numbers)
    causes = {name.removeprefix(_CAUSE): it for name, it in totals.items() if _CAUSE in name}
    places = totals["controller/groups_trained"] * per_prompt - totals["controller/placeholders"]
    expected = set(causes) == set(leg.placeholders) and all(
        causes[cause] == count for cause, count in leg.placeholders.items() if count is not None
    )
    return {
        "chaos/steps": len(steps),
        "chaos/samples": len(samples),
        "chaos/placeholders_as_expected": int(expected),
        "chaos/zero_rewards_trained": sum(sample["reward"] == 0 for sample in samples),
        "chaos/placeholders_trained": len(samples) - places,
        "chaos/rows_left": _rows_left(steps, per_prompt),
        **{f"chaos/placeholders/{cause}": count for cause, count in sorted(causes.items())},
        "chaos/dropped_prompts": totals["controller/dropped_prompts"],
        "chaos/retries_infrastructure": totals["controller/retries_infrastructure"],
    }


def _rows_left(steps: list[dict[str, Any]], per_prompt: int) -> int:
    """Rows that the storage units hold at the end of the last step, but for that step's own.

    The rows of a run that ended with its fault went with its storage units, which are processes.
    """
    if not steps:
        return 0
    last = steps[-1]
    held = sum(it for name, it in last.items() if re.fullmatch(r"dataplane/\d+/rows", name))
    return int(held - last["controller/groups_trained"] * per_prompt)


def _lines(path: Path) -> list[dict[str, Any]]:
    with suppress(FileNotFoundError):
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return []
