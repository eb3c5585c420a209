"""Find the checkpoint that a run goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.checkpoint.identity import check_identity
from posttrain.checkpoint.manifest import CheckpointError, Manifest, check_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posttrain.checkpoint.store import CheckpointStore

AUTO = "auto"


@dataclass(frozen=True)
class Start:
    """Where a run begins.

    Attributes:
        folder: the checkpoint; None to begin with the model as it is.
        manifest: of that checkpoint.
        continues: whether the run's folder may hold an earlier part of this very run.
        damaged: newer checkpoints that were passed over: step and what is wrong.
    """

    folder: Path | None = None
    manifest: Manifest | None = None
    continues: bool = False
    damaged: tuple[tuple[int, str], ...] = ()

    @property
    def step(self) -> int:
        """Optimizer steps that the run need not take again."""
        return self.manifest.step if self.manifest else 0

    def sentences(self) -> list[str]:
        """What must be said of it: warnings first."""
        said = [f"WARNING: passed over a damaged checkpoint: {what}" for _, what in self.damaged]
        if self.folder:
            said.append(f"goes on after step {self.step} from {self.folder}")
        elif self.continues:
            said.append("no checkpoint to go on from; begins with the first step")
        return said


def find_start(store: CheckpointStore, resume: str | None, identity: Mapping[str, Any]) -> Start:
    """Decide where a run begins; every byte of the checkpoint that it goes on from is checked.

    Args:
        store: the run's own checkpoints.
        resume: ``auto`` for the newest whole one of those, or the beginning when there is none at
            all; the path of one; None for the beginning.
        identity: see ``posttrain.checkpoint.identity``.

    Raises:
        CheckpointError: the checkpoint is damaged (with ``auto``: all are), or of another run; or
            there are others that must not be mixed with this run's.
    """
    if resume is None:
        _refuse_others(store, "begin a run", list(store.steps().values()))
        return Start()
    start = _newest_whole(store) if resume == AUTO else _chosen(store, Path(resume))
    if start.folder and start.manifest:
        check_identity(start.folder, start.manifest.identity, identity)
    return start


def _newest_whole(store: CheckpointStore) -> Start:
    damaged: list[tuple[int, str]] = []
    for step, folder in reversed(store.steps().items()):
        try:
            manifest = check_whole(folder)
        except CheckpointError as error:
            damaged.append((step, f"{folder}: {error.found}"))
        else:
            return Start(folder, manifest, continues=True, damaged=tuple(damaged))
    if damaged:
        raise CheckpointError(
            f"the newest whole checkpoint in {store.folder}",
            "only damaged ones:" + "".join(f"\n    {what}" for _, what in damaged),
            "restore the files, or remove the folder to begin at the first step",
        )
    return Start(continues=True)


def _chosen(store: CheckpointStore, folder: Path) -> Start:
    manifest = check_whole(folder)
    own = folder.resolve().parent == store.folder.resolve()
    others = [path for step, path in store.steps().items() if not own or step > manifest.step]
    _refuse_others(store, f"go on from the checkpoint {folder}", others)
    return Start(folder, manifest, continues=own)


def _refuse_others(store: CheckpointStore, asked: str, others: list[Path]) -> None:
    if others:
        raise CheckpointError(
            f"{asked} with checkpoints in {store.folder}",
            f"others, whose later steps would be mixed with this run's: {_names(others)}",
            "give checkpoint.resume=auto to go on from the newest of them, or another"
            " checkpoint.dir, or remove them",
        )


def _names(folders: list[Path]) -> str:
    return ", ".join(folder.name for folder in folders)
