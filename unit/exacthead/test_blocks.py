"""Items that run at once on one terminal: a block each, and who runs."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from exacthead.blocks import MOST, Blocks, watching
from exacthead.prefix import Prefixed
from exacthead.runs.result import ItemResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

ROOT = Path(__file__).parents[2]


def result(name: str, kind: Kind = Kind.PASSED, reason: str = "") -> ItemResult:
    return ItemResult(item_id=name, verdict=Verdict(kind, reason), seconds=1.25)


def test_each_item_is_one_block_in_the_order_of_their_ends() -> None:
    target = io.StringIO()
    blocks = Blocks(Console(file=target, width=40), 3)
    blocks.begin("a")
    blocks.begin("b")
    blocks.write("a", "a1\n")
    blocks.write("b", "b1 [bold]is no markup[/bold]\nb2")
    blocks.write("a", "a2\n")
    blocks.end(result("b", Kind.FAILED, "exit\ncode 1"))
    blocks.end(result("a"))
    blocks.end(ItemResult(item_id="c", verdict=Verdict(Kind.NOT_RUN, "gate: b is failed")))

    assert target.getvalue().splitlines() == [
        "[1/3] b: failed in 1.2 s (exit code 1)",
        "  | b1 [bold]is no markup[/bold]",
        "  | b2",
        "[2/3] a: passed in 1.2 s",
        "  | a1",
        "  | a2",
        "[3/3] c: not_run in 0.0 s (gate: b is failed)",
    ]


def test_of_a_long_log_the_end_is_shown_and_how_much_is_left_out() -> None:
    target = io.StringIO()
    blocks = Blocks(Console(file=target), 1)
    for _ in range(3):
        blocks.write("a", "x" * (MOST // 2))
    blocks.end(result("a"))

    first, second, third = target.getvalue().splitlines()
    assert first.startswith("[1/1] a: passed")
    assert second == f"... {3 * (MOST // 2) - MOST} characters are only in its log ..."
    assert third == f"  | {'x' * MOST}"


def test_one_item_at_a_time_is_shown_as_it_grows() -> None:
    with watching(Console(file=io.StringIO()), 2, at_once=False) as watch:
        assert isinstance(watch, Prefixed)
    with watching(Console(file=io.StringIO()), 2, at_once=True) as watch:
        assert isinstance(watch, Blocks)


def test_a_terminal_shows_a_table_of_what_runs_then_lines_and_the_blocks_of_red_items(
    small_repository: Repository,
) -> None:
    slow = 'echo begun >&2; sleep 1.5; [ "$1" = plain ]\n'
    count = (small_repository.root / "functional/count.sh").read_text(encoding="utf-8")
    text = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    text += '\n[jobs.count.legs.other]\nworkers = { policy = "plain" }\n'
    small_repository.commit({"functional/count.sh": count + slow, "ci/harness.toml": text})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "exacthead", "functional", "count", "--jobs", "2"]
    with subprocess.Popen(
        command,
        cwd=small_repository.root,
        env={**os.environ, "PYTHONPATH": str(ROOT / "ci"), "TERM": "xterm", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 1 << 16):
                shown += data
        except OSError:
            pass  # the other end is closed: how a terminal of a process that has ended answers
        os.close(ours)
    text = shown.decode()

    assert process.returncode == 1, text
    assert "last line" in text
    assert "0 ended, 0 of them red; 0 waiting" in text
    green, red = text.index("count.plain: passed"), text.index("count.other: failed")
    assert "  | begun" not in text[green : text.find("\n", green) + 40].replace("\r", "")[:60]
    assert "  | begun" in text[red : red + 400].replace("\r", "")
