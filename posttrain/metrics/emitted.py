"""Which of the declared metrics a run of one recipe can write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posttrain.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

# What an entry point writes, by the first part of the name; timings are of its own stages, and all
# of them count as possible.
_TRAINING = ("train", "refit", "policy", "generation", "validation", "data", "timing", "checkpoint")
_WRITES = {
    "train": _TRAINING,
    "single_controller": (*_TRAINING, "controller", "dataplane", "capture"),
    "verify": ("verifier", "timing"),
    "accept": ("rollout", "timing"),
}


def emitted(entry: str, values: Mapping[str, Any]) -> list[str]:
    """Regular expressions of the names that a run can write, each of a whole name.

    Args:
        entry: the entry point.
        values: of the recipe, by dotted key.
    """
    return [_pattern(metric.name, values) for metric in METRICS if _can(metric.name, entry, values)]


def _can(name: str, entry: str, values: Mapping[str, Any]) -> bool:
    first = name.split("/", maxsplit=1)[0]
    if first not in _WRITES[entry]:
        return False
    if first == "capture":
        return values.get("token_capture.enabled") is True
    if name == "train/reference_kl":
        return bool(values.get("advantages.kl_coefficient"))
    if name.startswith("dataplane/<n>/"):
        return values.get("dataplane.kind") == "transfer_queue"
    return True


def _pattern(name: str, values: Mapping[str, Any]) -> str:
    counts = {
        "generation": values.get("generation.workers", 0),
        "dataplane": values.get("dataplane.storage_units", 0),
    }
    count = counts.get(name.split("/", maxsplit=1)[0], 0)
    numbers = "|".join(map(str, range(count)))
    pattern = re.escape(name).replace("<n>", f"({numbers})")
    return re.sub("<(verifier|cause)>", "[a-z0-9_]+", pattern)
