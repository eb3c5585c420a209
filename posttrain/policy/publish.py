"""Write a whole model for the engines to read."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.torch import save_file

from posttrain.errors import StackError

if TYPE_CHECKING:
    from pathlib import Path

    import torch


def write_state(state: dict[str, torch.Tensor], path: Path) -> list[str]:
    """Write `state` to `path` as safetensors, complete or not at all.

    Args:
        state: full tensors in host memory, under their checkpoint's names.
        path: the file to make or to replace, usually in shared memory.

    Returns:
        The sorted names of the tensors.

    Raises:
        StackError: the file system is too full, or refuses the file.
    """
    asked = f"weights of {sum(tensor.nbytes for tensor in state.values())} bytes in {path}"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        free = shutil.disk_usage(path.parent).free
        if free <= sum(tensor.nbytes for tensor in state.values()):
            raise StackError(
                asked, f"{free} bytes free", f"free space in {path.parent}, or name another folder"
            )
        save_file(state, partial, metadata={"format": "pt"})
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise StackError(
            asked, str(error), f"make {path.parent} a writable folder, or name another"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return sorted(state)
