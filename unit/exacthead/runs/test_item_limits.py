"""What ends an item before its own end: time, memory, a wish, a death above it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from exacthead.runs import start
from exacthead.runs.item import ItemRequest, run_item
from exacthead.verdict import Kind, Verdict
from unit.exacthead.runs.daemon import DAEMON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.runs.folder import RunFolder


def test_a_hanging_item_times_out_and_all_of_it_is_ended(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    source = DAEMON + "daemonise(); daemonise(clear_environment=True); wait_for(2); time.sleep(600)"
    outcome = run_item(python(source, timeout_s=4.0))
    assert outcome.verdict == Verdict(
        Kind.TIMED_OUT, "the leg's limit of 4 s; where it stood: stacks.txt"
    )
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_after_a_timeout_sigterm_comes_first(python: Callable[..., ItemRequest]) -> None:
    source = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('tidied up')))\n"
        "print('ready')\n"
        "time.sleep(600)\n"
    )
    outcome = run_item(python(source, timeout_s=3.0, grace_s=30.0))
    assert outcome.verdict.kind is Kind.TIMED_OUT
    assert outcome.log.read_text() == "ready\ntidied up\n"
    assert outcome.returncode == 0


def test_a_tree_that_ignores_sigterm_is_killed_after_the_grace(
    shell: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    script = "trap '' TERM; sleep 600 & echo $$ $! > $EXACTHEAD_ARTIFACTS/pids; wait"
    outcome = run_item(shell(script, timeout_s=1.0))
    assert outcome.verdict.kind is Kind.TIMED_OUT
    assert outcome.signal == "SIGKILL"
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_memory_over_the_limit_ends_the_item(python: Callable[..., ItemRequest]) -> None:
    outcome = run_item(
        python("block = b'x' * (200 << 20)\nimport time\ntime.sleep(600)", memory_limit_mb=100.0)
    )
    assert outcome.verdict.kind is Kind.FAILED
    assert "its limit is 100 MiB" in outcome.verdict.reason
    assert outcome.peak_pss_mb > 100


def test_the_peak_counts_the_whole_tree(python: Callable[..., ItemRequest]) -> None:
    source = (
        "import os, time\n"
        "child = os.fork()\n"
        "block = b'x' * (60 << 20)\n"
        "time.sleep(4)\n"
        "if child: os.wait()\n"
    )
    outcome = run_item(python(source))
    assert outcome.verdict == Verdict(Kind.PASSED)
    assert 120 < outcome.peak_pss_mb < 250


def test_a_wish_to_stop_ends_everything(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool], run_folder: RunFolder
) -> None:
    pids = run_folder.item("item").artifacts / "pids"
    asked = threading.Event()

    def stop() -> bool:
        if pids.exists() and len(pids.read_text().split()) == 2:
            asked.set()
        return asked.is_set()

    source = DAEMON + (
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "daemonise(); daemonise(clear_environment=True); time.sleep(600)\n"
    )
    outcome = run_item(python(source), stop=stop)
    assert outcome.verdict.kind is Kind.INTERRUPTED
    assert gone(pids)


def test_a_wish_to_stop_before_the_start_is_heard(shell: Callable[..., ItemRequest]) -> None:
    outcome = run_item(shell("sleep 600"), stop=lambda: True)
    assert outcome.verdict.kind is Kind.INTERRUPTED


def test_an_error_while_following_ends_the_item(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool], run_folder: RunFolder
) -> None:
    def fail(text: str) -> None:
        raise OSError(text)

    source = DAEMON + "daemonise(); wait_for(1); print('now', flush=True); time.sleep(600)"
    with pytest.raises(OSError, match="now"):
        run_item(python(source), echo=fail)
    assert gone(run_folder.item("item").artifacts / "pids")


def test_a_killed_supervisor_is_a_crash_and_nothing_marked_survives(
    python: Callable[..., ItemRequest], gone: Callable[[Path], bool]
) -> None:
    source = DAEMON + "daemonise(); wait_for(1)\nos.kill(os.getppid(), 9)\ntime.sleep(600)"
    outcome = run_item(python(source))
    assert outcome.verdict.kind is Kind.CRASHED
    assert outcome.verdict.reason.startswith("its supervisor died: exit code -9")
    assert gone(outcome.log.parent / "artifacts" / "pids")


def test_a_supervisor_that_dies_in_the_middle_of_its_report_has_told_nothing(
    shell: Callable[..., ItemRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = (
        """import os; os.read(0, 1 << 16); os.write(1, b'{"ended_by"'); os.kill(os.getpid(), 9)"""
    )
    monkeypatch.setattr(start, "_BOOT", torn)

    outcome = run_item(shell("echo never started"))

    assert outcome.verdict == Verdict(Kind.CRASHED, "its supervisor died: exit code -9")
