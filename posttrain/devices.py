"""The accelerators of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def accelerators() -> int:
    """CUDA devices that this process may use, without importing torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
