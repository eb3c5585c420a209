"""Put one fault into a run that is under way, from outside."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from unit.chaos.tree import FAR_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unit.chaos.tree import Training

UNIT = "ray::SimpleStorageUnit"
BEGUN = r"\] generation: starts"
_POLL_S = 0.002


@dataclass(frozen=True)
class Injected:
    """A fault that is in.

    Attributes:
        at: when, by the monotonic clock.
        stage: the last one that the run had begun by then.
    """

    at: float
    stage: str


def engine_idle(run: Training) -> Injected:
    """Kill the engine when the policy is at work: without a window nothing is generated then."""
    engine = _engine(run)
    run.wait_for(r"\] logprobs: starts")
    engine.kill()
    return _injected(run)


def engine_serving(run: Training) -> Injected:
    """Kill the engine when the gate has begun to send it calls."""
    engine = _engine(run)
    _until_called(run)
    engine.kill()
    return _injected(run)


def gate_killed(run: Training) -> Injected:
    """Kill the gate when it has calls at the engine."""
    run.wait_for(BEGUN)
    gate = run.gym()
    _until_called(run)
    gate.kill()
    return _injected(run)


def unit_killed(run: Training) -> Injected:
    """Kill one storage unit when the engine has calls to stage."""
    run.wait_for(BEGUN)
    unit, *_ = run.titled(UNIT)
    _until_called(run)
    unit.kill()
    return _injected(run)


def sink_failure(run: Training) -> Injected:
    """Let the storage units hang until a call has failed to be staged, and then go on."""
    run.wait_for(BEGUN)
    units = run.titled(UNIT)
    for unit in units:
        unit.suspend()
    injected = _injected(run)
    try:
        _until(run, lambda: "worker_capture_failed" in _ledgers(run), "a call that is not staged")
    finally:
        for unit in units:
            with suppress(psutil.Error):
                unit.resume()
    return injected


def from_the_start(run: Training) -> Injected:
    """Wait for the first rollouts of a run that was started with its fault."""
    run.wait_for(BEGUN)
    return _injected(run)


def _engine(run: Training) -> psutil.Process:
    """The engine, which listens by now; finding it takes a moment."""
    run.wait_for(BEGUN)
    return run.engine(0)


def _injected(run: Training) -> Injected:
    *_, stage = re.findall(r"\] (\w+): starts", run.printed())
    return Injected(time.monotonic(), stage)


def _until_called(run: Training) -> None:
    """Wait for a call of the model: its intent is on the disk before it is sent."""
    _until(run, lambda: any(_captured(run).glob("*.intents")), "a call of the model")


def _ledgers(run: Training) -> str:
    """All that the gate has written down so far."""
    text = ""
    for path in _captured(run).rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):
            text += path.read_text(encoding="utf-8", errors="replace")
    return text


def _captured(run: Training) -> Path:
    return run.folder / "capture"


def _until(run: Training, there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + FAR_S
    while not there():
        if run.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come:\n{run.printed()}")
        time.sleep(_POLL_S)
