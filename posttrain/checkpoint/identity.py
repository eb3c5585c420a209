"""What a run must have in common with a checkpoint to go on from it to the bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from posttrain.checkpoint.manifest import CheckpointError
from posttrain.dataset import content_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from posttrain.config import TrainRecipe
    from posttrain.data import Row

# Keys and sections that do not decide what the weights become. All others do, new ones included.
FREE = {
    "run.dir": "where results go",
    "run.steps": "how far to go; a schedule's length is a key of its own",
    "cluster.cpus": "where processes run",
    "cluster.temp_dir": "where Ray writes",
    "interpreters": "paths",
    "model.path": "a place; the revision counts",
    "data.train": "a place; the digest of its rows counts",
    "data.validation": "validation changes no weights",
    "data.epochs": "how far to go",
    "generation.ports": "addresses",
    "refit": "how weights travel",
    "timeouts": "patience",
    "checkpoint": "what is kept",
    "dataplane": "where rows wait",
}
TRAIN_ROWS = "rows of data.train"


def identity(recipe: TrainRecipe, rows: Sequence[Row]) -> dict[str, Any]:
    """What decides the weights, by name, in the types of JSON.

    Args:
        recipe: the recipe.
        rows: what it trains on, whose content counts.
    """
    content = {key: it for key, it in _flat(recipe.model_dump()) if not _free(key)}
    if recipe.policy.schedule.kind == "constant":
        for name in ("steps", "final"):
            del content[f"policy.schedule.{name}"]
    found: dict[str, Any] = json.loads(json.dumps({**content, TRAIN_ROWS: content_digest(rows)}))
    return found


def check_identity(folder: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on from a checkpoint of another run.

    Raises:
        CheckpointError: naming every difference.
    """
    differences = [
        f"\n    {key}: {_said(saved, key)} there, {_said(now, key)} now"
        for key in sorted(saved.keys() | now.keys())
        if (key in saved, saved.get(key)) != (key in now, now.get(key))
    ]
    if differences:
        raise CheckpointError(
            f"go on from the checkpoint {folder}",
            f"it belongs to a run that differs in what decides the weights:{''.join(differences)}",
            "give these as they were, or begin a new run in folders of its own (run.dir,"
            " checkpoint.dir) with checkpoint.resume=null",
        )


def _said(content: Mapping[str, Any], key: str) -> str:
    return json.dumps(content[key]) if key in content else "not known"


def _free(key: str) -> bool:
    parts = key.split(".")
    return any(".".join(parts[: end + 1]) in FREE for end in range(len(parts)))


def _flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, it in content.items():
        flat += _flat(it, f"{prefix}{name}.") if isinstance(it, dict) else [(prefix + name, it)]
    return flat
