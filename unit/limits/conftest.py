from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.runs.oom import own_group
from unit.exacthead.units.small import Suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LIMIT_BYTES = 192 << 20


@pytest.fixture
def suite(tmp_path: Path) -> Callable[[Mapping[str, str]], Suite]:
    """A function that writes a suite's files."""
    return Suite(tmp_path).write


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of 192 MiB that this test may put processes into.

    Whether a machine lets its users make one is the machine's business: as an ordinary user, or in
    a container whose control groups cannot be written to, there is none.
    """
    folder = _make_group()
    if folder is None:
        pytest.skip("no control group with a memory limit can be made on this machine")
    yield folder
    for _ in range(100):  # a killed process leaves it a little later
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.05)
    folder.rmdir()


def _make_group() -> Path | None:
    own = own_group()
    parents = [] if own.folder is None else [own.folder, *own.folder.parents]
    for parent in parents or [Path("/sys/fs/cgroup")]:
        folder = parent / f"exacthead-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        for name in ("memory.max", "memory.limit_in_bytes"):
            # Version 2 has the file only where the folder above hands the controller down.
            if (folder / name).exists():
                (folder / name).write_text(str(LIMIT_BYTES), encoding="ascii")
                _without_swap(folder)
                return folder
        folder.rmdir()
    return None


def _without_swap(folder: Path) -> None:
    """Where there is swap, it would take what is over the limit."""
    for name, value in (("memory.swap.max", "0"), ("memory.swappiness", "0")):
        if (folder / name).exists():
            (folder / name).write_text(value, encoding="ascii")
