from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import exacthead
from exacthead.runs.folder import RunFolder, State
from exacthead.runs.interrupt import Interrupts
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DRIVER = Path(__file__).parent / "driver.py"

# Ignores SIGTERM itself, and has children in the group, in a session of their own, and unmarked.
STUBBORN = """
trap '' TERM
note() { echo "$1" >> "$EXACTHEAD_ARTIFACTS/pids"; }
sleep 600 & note $!
setsid bash -c 'echo $$ >> "$EXACTHEAD_ARTIFACTS/pids"; exec sleep 600' &
setsid env -i bash -c "echo \\$\\$ >> '$EXACTHEAD_ARTIFACTS/pids'; exec sleep 600" &
note $$
while true; do sleep 0.2; done
"""


class Driver:
    """A running driver and the run folder that it told."""

    def __init__(self, tmp_path: Path, *scripts: str, parallel: int = 1) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(tmp_path), str(parallel), *scripts],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(exacthead.__file__).parent.parent)},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.folder = RunFolder(Path(self.process.stdout.readline().strip()))

    def pids(self, number: int) -> Path:
        return self.folder.item_path(f"item/{number}").artifacts / "pids"

    def noted(self, number: int) -> int:
        pids = self.pids(number)
        return len(pids.read_text().split()) if pids.exists() else 0

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    drivers: list[Driver] = []

    def make(*scripts: str, parallel: int = 1) -> Driver:
        drivers.append(Driver(tmp_path, *scripts, parallel=parallel))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.process.kill()
        driver.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_its_own_and_keeps_what_was_finished(
    start: Callable[..., Driver],
    wait_until: Callable[[Callable[[], object], str], None],
    gone: Callable[[Path], bool],
    number: signal.Signals,
) -> None:
    driver = start("exit 0", "exit 3", STUBBORN, "exit 0")
    wait_until(lambda: driver.noted(2) == 4, "the item runs with its children")
    driver.process.send_signal(number)
    code, errors = driver.end()
    assert code == 130, errors
    assert gone(driver.pids(2))
    assert driver.folder.state() is State.INTERRUPTED
    verdicts = [result.verdict for result in driver.folder.results()]
    assert [verdict.kind for verdict in verdicts] == [
        Kind.PASSED,
        Kind.FAILED,
        Kind.INTERRUPTED,
        Kind.NOT_RUN,
    ]
    assert verdicts[3].reason == f"interrupted by {number.name}"


def test_an_interrupt_whose_answer_nobody_reads_is_one_all_the_same(
    start: Callable[..., Driver],
    wait_until: Callable[[Callable[[], object], str], None],
    gone: Callable[[Path], bool],
) -> None:
    driver = start(STUBBORN, "exit 0")
    wait_until(lambda: driver.noted(0) == 4, "the item runs with its children")
    assert driver.process.stderr is not None
    driver.process.stderr.close()  # as by the same Ctrl-C in `2>&1 | tee log`
    driver.process.send_signal(signal.SIGINT)

    assert driver.process.wait(timeout=60) == 130
    assert gone(driver.pids(0))
    assert driver.folder.state() is State.INTERRUPTED
    kinds = [result.verdict.kind for result in driver.folder.results()]
    assert kinds == [Kind.INTERRUPTED, Kind.NOT_RUN]


def test_more_interrupts_do_not_break_the_cleanup(
    start: Callable[..., Driver],
    wait_until: Callable[[Callable[[], object], str], None],
    gone: Callable[[Path], bool],
) -> None:
    driver = start(STUBBORN, STUBBORN, parallel=2)
    wait_until(lambda: driver.noted(0) == driver.noted(1) == 4, "both items run")
    for _ in range(5):
        driver.process.send_signal(signal.SIGINT)
        try:
            driver.process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    code, errors = driver.end()
    assert code == 130
    assert "Traceback" not in errors
    assert gone(driver.pids(0))
    assert gone(driver.pids(1))
    assert [result.verdict.kind for result in driver.folder.results()] == [Kind.INTERRUPTED] * 2


def test_a_killed_harness_takes_everything_with_it(
    start: Callable[..., Driver],
    wait_until: Callable[[Callable[[], object], str], None],
    gone: Callable[[Path], bool],
) -> None:
    driver = start(STUBBORN, "exit 0")
    wait_until(lambda: driver.noted(0) == 4, "the item runs with its children")
    private = Path(
        next(
            entry
            for entry in Path(f"/proc/{driver.pids(0).read_text().split()[0]}/environ")
            .read_bytes()
            .decode()
            .split("\0")
            if entry.startswith("RAY_TMPDIR=")
        ).partition("=")[2]
    )
    assert private.exists()
    driver.process.kill()
    assert driver.end()[0] == -signal.SIGKILL
    wait_until(lambda: gone(driver.pids(0)), "every process of the item is gone")
    wait_until(lambda: not private.exists(), "the private folder is gone")
    assert driver.folder.state() is State.ABANDONED


def test_ctrl_c_on_the_terminal_does_not_reach_the_item_itself(
    start: Callable[..., Driver], wait_until: Callable[[Callable[[], object], str], None]
) -> None:
    script = (
        "trap 'echo hit > $EXACTHEAD_ARTIFACTS/hit' INT\n"
        "echo $$ > $EXACTHEAD_ARTIFACTS/pids\nwhile true; do sleep 0.1; done"
    )
    driver = start(script)
    wait_until(lambda: driver.noted(0) == 1, "the item runs")
    os.killpg(driver.process.pid, signal.SIGINT)  # what a terminal does
    assert driver.end()[0] == 130
    assert not (driver.folder.item_path("item/0").artifacts / "hit").exists()


def test_the_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        assert not interrupts.asked()
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.asked()
        assert interrupts.name == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_item_that_floods_the_terminal_is_interrupted_all_the_same(tmp_path: Path) -> None:
    driver = Driver(tmp_path, 'echo $$ > "$EXACTHEAD_ARTIFACTS/pids"; exec yes flood')
    log = driver.folder.item_path("item/0").log
    deadline = time.monotonic() + 60
    while not log.exists() or log.stat().st_size < 1 << 26:
        assert time.monotonic() < deadline, "the flood never came"
        time.sleep(0.02)
    driver.process.send_signal(signal.SIGINT)

    code, _ = driver.end()

    assert code == 130
    assert driver.folder.state() is State.INTERRUPTED
    log.unlink()
