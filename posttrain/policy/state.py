"""What a rank must keep to go on to the bit, through torch's distributed checkpoint.

Weights and optimizer state are each rank's shards of the float32 originals, under the model's own
names; the scheduler's state is the same on all ranks; each rank has its own generators.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from posttrain.checkpoint.manifest import CheckpointError, Saved, content_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

_METADATA = ".metadata"


def save_state(
    folder: Path, model: torch.nn.Module, optimizer: Optimizer, scheduler: LRScheduler
) -> Saved:
    """Write this rank's part of the training state; collective.

    Returns:
        The files that this rank wrote, which are on the disk, as the disk gives them back.

    Raises:
        CheckpointError: a rank could not write, on all ranks; what is in the folder is worth
            nothing then.
    """
    rank = dist.get_rank()
    state = _state(model, optimizer, scheduler, rank)
    try:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, sync_files=True))
    except CheckpointException as error:
        raise _failed("write the training state to", folder, error) from error
    mine = [path for path in sorted(folder.iterdir()) if path.name.startswith(f"__{rank}_")]
    if rank == 0:
        mine.append(folder / _METADATA)
    files = {path.name: content_of(path) for path in mine}
    return Saved(files, {"torch": torch.__version__})


def load_state(
    folder: Path, model: torch.nn.Module, optimizer: Optimizer, scheduler: LRScheduler
) -> int:
    """Take over the training state that as many ranks wrote to `folder`; collective.

    Returns:
        The optimizer steps that had been taken.

    Raises:
        CheckpointError: a rank could not read its part, on all ranks; the policy must not go on.
    """
    rank = dist.get_rank()
    state = _state(model, optimizer, scheduler, rank)
    try:
        dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
    except CheckpointException as error:
        raise _failed("read the training state in", folder, error) from error
    set_model_state_dict(model, state["model"])
    set_optimizer_state_dict(model, optimizer, state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    _set_generators(state["generators"][str(rank)])
    return int(scheduler.last_epoch)


def _state(
    model: torch.nn.Module, optimizer: Optimizer, scheduler: LRScheduler, rank: int
) -> dict[str, Any]:
    return {
        "model": get_model_state_dict(model),
        "optimizer": get_optimizer_state_dict(model, optimizer),
        "scheduler": scheduler.state_dict(),
        "generators": {str(rank): _generators()},
    }


def _generators() -> dict[str, torch.Tensor]:
    """Torch's only: Python's belongs to other libraries of the process, and decides no number."""
    state = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_generators(state: Mapping[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["torch"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])


def _failed(asked: str, folder: Path, error: CheckpointException) -> CheckpointError:
    """Every rank's cause in the stack's own words; their tracebacks are no message."""
    causes = [f"rank {rank}: {cause!r}" for rank, (cause, _) in sorted(error.failures.items())]
    # Of a full disk torch says no more than that a position is not what it expected.
    free = f"{shutil.disk_usage(folder).free >> 20} MiB are free there"
    return CheckpointError(
        f"{asked} {folder}",
        "; ".join([*causes, free]),
        "free space there or look at the disk; earlier checkpoints are what they were",
    )
