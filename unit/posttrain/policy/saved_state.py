"""What is in the training state that ranks have saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

if TYPE_CHECKING:
    from pathlib import Path


def content(folder: Path) -> dict[str, Any]:
    """Everything in a checkpoint's folder, without ranks."""
    state: dict[str, Any] = {}
    _load_state_dict(
        state,
        storage_reader=dcp.FileSystemReader(folder),
        planner=_EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    flat: dict[str, Any] = {}

    def flatten(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                flatten(f"{prefix}/{name}", inner)
        else:
            flat[prefix] = value

    flatten("", state)
    return flat


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    return bool(left == right)


def assert_same(left: Path, right: Path) -> dict[str, Any]:
    one, other = content(left), content(right)
    assert one.keys() == other.keys()
    assert [name for name in one if not _same(one[name], other[name])] == []
    return one
