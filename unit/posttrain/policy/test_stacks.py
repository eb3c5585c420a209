from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from posttrain.stacks import request_stack_dump

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_process_that_hangs_writes_its_stacks_down(tmp_path: Path) -> None:
    with start({"EXACTHEAD_STACKS_DIR": str(tmp_path / "stacks")}) as process:
        assert process.stdout
        path = tmp_path / "stacks" / f"{process.pid}.txt"
        assert process.stdout.readline().strip() == str(path)
        request_stack_dump(process.pid)
        process.communicate()
    assert process.returncode == 0
    assert "stuck_in_a_call" in path.read_text(encoding="utf-8")


def test_without_a_folder_nothing_is_registered() -> None:
    with start({"EXACTHEAD_STACKS_DIR": ""}) as process:
        out, _ = process.communicate()
    assert out.strip() == "None"


def test_a_process_that_has_ended_is_no_error() -> None:
    with start({"EXACTHEAD_STACKS_DIR": ""}) as process:
        process.communicate()
    request_stack_dump(process.pid)
