"""Load the policy's model and tokenizer from a resolved folder, and from nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from posttrain.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_model(folder: Path) -> PreTrainedModel:
    """Load the causal language model in `folder` in float32, for evaluation and training alike.

    Dropout stays off in training too: log-probabilities recomputed before a step have to be the
    ones that the step differentiates.

    Raises:
        ModelError: the checkpoint lacks weights of the architecture, or has others.
    """
    model, report = AutoModelForCausalLM.from_pretrained(
        folder,
        local_files_only=True,
        dtype=torch.float32,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    wrong = {kind: sorted(map(str, names)) for kind, names in report.items() if names}
    if wrong:
        raise ModelError(
            asked=f"every weight of {type(model).__name__} from {folder}",
            found="; ".join(f"{kind}: {', '.join(names)}" for kind, names in wrong.items()),
            todo="give a checkpoint of exactly this architecture",
        )
    return model.eval()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer in `folder`."""
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)
