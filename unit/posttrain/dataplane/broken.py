"""Processes of a plane that a test stops, and the time in which a call has to end then."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from posttrain.dataplane import PlaneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posttrain.dataplane.transfer_queue import TransferQueuePlane

FIELDS = ("tokens", "number")
MARGIN_S = 30.0  # a hang is what it must not be; a busy machine may take its time


def rows(*ids: str, length: int = 10) -> dict[str, dict[str, Any]]:
    return {
        key: {"tokens": np.arange(length, dtype=np.int64), "number": number}
        for number, key in enumerate(ids)
    }


def within(plane: TransferQueuePlane, call: Callable[[], object]) -> PlaneError:
    """Return the error of a call that has to end by the plane's deadline."""
    started = time.monotonic()
    with pytest.raises(PlaneError) as caught:
        call()
    assert time.monotonic() - started < plane._deadline_s + MARGIN_S
    return caught.value


def stop(pid: int) -> None:
    """Stop a process. On a busy machine its threads go on for a while after the signal."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + MARGIN_S
    while any(state_of(task) != "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < end
        time.sleep(0.01)


def state_of(task: Path) -> str:
    return (task / "stat").read_text(encoding="utf-8").rpartition(") ")[2][0]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
