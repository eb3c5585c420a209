"""A run whose terminal is lost goes on, and says nothing more to it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import exacthead

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

ITEM = """
import sys
from exacthead.prefix import Prefixed
from exacthead.terminal import Terminal

terminal, prefixed = Terminal(), Prefixed(sys.stdout)
terminal.out("it begins")
sys.stdin.readline()
prefixed.write("item", "said by an item\\n")
prefixed.write("item", "and more\\n")
terminal.out("said by the session")
terminal.print("and its summary")
sys.stderr.write("it came to its end\\n")
"""


def run(output: int) -> subprocess.Popen[str]:
    """The program with its standard output there; it waits for a line before it says more."""
    return subprocess.Popen(
        [sys.executable, "-c", ITEM],
        env={**os.environ, "PYTHONPATH": str(Path(exacthead.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_terminal_that_is_closed_costs_the_run_nothing() -> None:
    ours, theirs = pty.openpty()
    with run(theirs) as process:
        os.close(theirs)
        assert b"it begins" in os.read(ours, 1024)
        os.close(ours)
        _, said = process.communicate("go on\n", timeout=60)

    assert (process.returncode, said) == (0, "it came to its end\n")


def test_a_file_that_cannot_take_the_output_costs_the_run_nothing() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with run(full) as process:
        os.close(full)
        _, said = process.communicate("go on\n", timeout=60)

    assert (process.returncode, said) == (0, "it came to its end\n")


def test_what_is_read_is_shown() -> None:
    with run(subprocess.PIPE) as process:
        shown, _ = process.communicate("go on\n", timeout=60)

    lines = ["it begins", "item | said by an item", "item | and more"]
    assert shown.splitlines() == [*lines, "said by the session", "and its summary"]


def test_a_terminal_of_another_encoding_costs_the_run_nothing(small_repository: Repository) -> None:
    said = "def test_sum():\n    assert 'é' == '→'\n"
    small_repository.commit({"unit/sums/test_sums.py": said})

    code, printed = small_repository.exacthead("unit", PYTHONIOENCODING="ascii")

    assert code == 1, printed
    assert r"assert '\xe9' == '\u2192'" in printed
    assert printed.endswith("0 passed, 1 failed, 0 skipped\n")
    state = json.loads((small_repository.run_folder() / "result.json").read_text(encoding="utf-8"))
    assert state["state"] == "failed"
