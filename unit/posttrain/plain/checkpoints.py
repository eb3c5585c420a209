"""Checkpoints with files of no meaning, for tests of their folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from posttrain.checkpoint.manifest import Manifest, content_of

if TYPE_CHECKING:
    from pathlib import Path

    from posttrain.checkpoint.store import CheckpointStore

IDENTITY: dict[str, Any] = {"policy.lr": 0.001}


def fill(folder: Path, step: int) -> Manifest:
    """Two shards on the disk, and what a manifest says of them."""
    (folder / "policy").mkdir()
    for rank in range(2):
        with (folder / "policy" / f"__{rank}_0.distcp").open("wb") as file:
            file.write(bytes([step, rank]) * 100)
            file.flush()
            os.fsync(file.fileno())
    shards = sorted((folder / "policy").iterdir())
    return Manifest(
        step=step,
        weights=f"weights of {step}",
        position={"epoch": 0, "taken": step, "late": []},
        identity=IDENTITY,
        versions={"torch": "2"},
        files={f"policy/{path.name}": content_of(path) for path in shards},
    )


def save(store: CheckpointStore, step: int, keep: int | None = None) -> Path:
    """Write a checkpoint as a run does."""
    with store.writing(step) as partial:
        folder = store.publish(partial, fill(partial, step))
    store.prune(step, keep)
    return folder
