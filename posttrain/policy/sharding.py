"""Divide a model among the ranks: each layer by itself, and the rest as one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from transformers import PreTrainedModel


def shard(model: PreTrainedModel, mesh: DeviceMesh, dtype: torch.dtype) -> PreTrainedModel:
    """Shard `model` over `mesh` with FSDP2, in place.

    Args:
        model: in float32 on the mesh's device.
        mesh: all ranks, in one dimension.
        dtype: in which parameters are gathered and computed with; gradients are added in float32.

    Returns:
        The same model; every rank holds its part of each parameter.
    """
    precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for layer in model.base_model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)
    return model
