"""The frozen reference policy: the start weights, beside the policy in every rank.

Its divergence from the policy is a reward's penalty (`posttrain.advantages`). It is made of the
model's folder and never of a checkpoint, so that a resumed run has the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.model.load import load_model

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel


def load_reference(folder: Path, device: torch.device) -> PreTrainedModel:
    """Load the model that the run starts from so that no step can change it.

    No parameter takes a gradient and no optimizer knows one; it is divided among the ranks as the
    policy is, and scored by the same code.

    Raises:
        ModelError: as `load_model`.
    """
    return load_model(folder).to(device).requires_grad_(requires_grad=False)
