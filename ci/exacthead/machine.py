"""This machine's own resources."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import psutil

from exacthead.runs.oom import own_group
from exacthead.tables import Runner

if TYPE_CHECKING:
    from exacthead.runs.oom import MemoryGroup


def this_runner(group: MemoryGroup | None = None) -> Runner:
    """The machine's own resources; memory in GB of 10^9 bytes.

    Args:
        group: the control group whose limit holds here, as of a container; the process's own
            unless given.
    """
    memory = psutil.virtual_memory().total
    limit = (group or own_group()).limit
    smi = shutil.which("nvidia-smi")
    accelerators = 0
    if smi:
        listed = subprocess.run([smi, "--list-gpus"], capture_output=True, text=True, check=False)
        accelerators = len(listed.stdout.splitlines()) if listed.returncode == 0 else 0
    return Runner(
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=round((memory if limit is None else min(memory, limit)) / 1e9, 1),
        accelerators=accelerators,
    )
