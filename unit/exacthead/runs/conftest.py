"""What the tests of runs share: requests of small real scripts, and waiting for the world."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from exacthead.runs.folder import RunFolder
from exacthead.runs.item import ItemRequest
from exacthead.runs.process import read_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", {"items": []}, "0123456789ab")


@pytest.fixture
def shell(run_folder: RunFolder, tmp_path: Path) -> Callable[..., ItemRequest]:
    """A request that runs a shell script; ``item_id`` and every field may be given."""

    def make(script: str, item_id: str = "item", **fields: Any) -> ItemRequest:
        return ItemRequest(
            item_id=item_id,
            command=("bash", "-c", script),
            cwd=tmp_path,
            folder=run_folder.item(item_id),
            **{"timeout_s": 60.0, "leftover_grace_s": 0.5, "grace_s": 0.5, **fields},
        )

    return make


@pytest.fixture
def python(run_folder: RunFolder, tmp_path: Path) -> Callable[..., ItemRequest]:
    """A request that runs Python source; ``item_id`` and every field may be given."""

    def make(source: str, item_id: str = "item", **fields: Any) -> ItemRequest:
        return ItemRequest(
            item_id=item_id,
            command=(sys.executable, "-c", source),
            cwd=tmp_path,
            folder=run_folder.item(item_id),
            **{"timeout_s": 60.0, "leftover_grace_s": 0.5, "grace_s": 0.5, **fields},
        )

    return make


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object], str], None]:
    """Wait until something is true; the limit only bounds a failure."""

    def wait(true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 30
        while not true():
            assert time.monotonic() < deadline, f"never came true: {what}"
            time.sleep(0.05)

    return wait


@pytest.fixture
def gone() -> Callable[[Path], bool]:
    """Whether every process whose pid a file lists has gone (or is a zombie)."""

    def ask(pids: Path) -> bool:
        found = [read_process(int(pid)) for pid in pids.read_text().split()]
        assert found, "the script noted no pid"
        return all(process is None or process.state in "ZX" for process in found)

    return ask
