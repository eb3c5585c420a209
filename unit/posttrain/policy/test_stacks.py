from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from posttrain.stacks import request_stack_dumps

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROGRAM = """
import sys
from posttrain.stacks import register_stack_dump

def stuck_in_a_call():
    print(register_stack_dump(), flush=True)
    sys.stdin.read()

stuck_in_a_call()
"""


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_every_process_that_registered_writes_its_stacks_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stacks"
    monkeypatch.setenv("EXACTHEAD_STACKS_DIR", str(folder))
    with start({}) as first, start({}) as second:
        for process in (first, second):
            assert process.stdout
            assert process.stdout.readline().strip() == str(folder / f"{process.pid}.txt")
        assert request_stack_dumps() == sorted([first.pid, second.pid], key=str)
        for process in (first, second):
            process.communicate()
    for process in (first, second):
        assert process.returncode == 0
        text = (folder / f"{process.pid}.txt").read_text(encoding="utf-8")
        assert "stuck_in_a_call" in text


def test_without_a_folder_nothing_is_registered_and_nobody_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with start({"EXACTHEAD_STACKS_DIR": ""}) as process:
        out, _ = process.communicate()
    assert out.strip() == "None"
    monkeypatch.delenv("EXACTHEAD_STACKS_DIR", raising=False)
    assert request_stack_dumps() == []


def test_a_number_that_is_somebody_elses_by_now_gets_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXACTHEAD_STACKS_DIR", str(tmp_path))
    with start({}) as ended:
        ended.communicate()
    # A living process that never registered: SIGUSR1 would end it.
    with start({"EXACTHEAD_STACKS_DIR": ""}) as other:
        assert other.stdout
        other.stdout.readline()
        (tmp_path / f"{other.pid}.txt").touch()
        (tmp_path / "notes.txt").touch()
        assert (tmp_path / f"{ended.pid}.txt").exists()
        assert request_stack_dumps() == []
        other.communicate()
    assert other.returncode == 0
