from __future__ import annotations

import socket
import tempfile
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.runs import isolation

if TYPE_CHECKING:
    from pathlib import Path


def test_a_private_folder_is_short_enough_for_rays_sockets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    private = isolation.private_folder()
    ray = private / "ray" / "session_2026-01-01_00-00-00_123456_1234567" / "sockets"
    ray.mkdir(parents=True)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(ray / "plasma_store.1"))
    finally:
        (ray / "plasma_store.1").unlink()
        for folder in (ray, *list(ray.parents)[:3]):
            folder.rmdir()


def test_no_usable_temporary_folder_is_an_error_that_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "_LONGEST_PRIVATE", 5)
    with pytest.raises(HarnessError, match=r"/tmp \(too long\), /var/tmp \(too long\)"):
        isolation.private_folder()
