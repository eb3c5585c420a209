"""Stages of a run: how long each took, and the deadline that each must keep.

In the main thread a stage is interrupted at its deadline, whatever it waits for: an alarm signal
raises there. A stage in another thread cannot be interrupted; its stacks are dumped at the
deadline and the error is raised when it ends, so a stage of the main thread has to enclose it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from posttrain.errors import StackError, WorkerError
from posttrain.metrics.table import find

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

# An interval of zero would disarm the alarm; a deadline that has passed rings at once.
_AT_ONCE_S = 1e-6


@dataclass(eq=False)
class _Stage:
    name: str
    limit_s: float
    started: float
    rung: bool = False
    closed: bool = False

    @property
    def ends(self) -> float:
        return self.started + self.limit_s

    def error(self) -> WorkerError:
        return WorkerError(
            f"finish the stage {self.name!r} within {self.limit_s:g} s",
            f"still at work after {time.monotonic() - self.started:.1f} s",
            "see the stacks in the log for what it waits for; if the machine is only slow, raise"
            " the stage's deadline (timeouts.* of the recipe)",
        )


class Stages:
    """The stage timer of one run.

    Args:
        stream: where progress lines and stack dumps go; needs a file descriptor.
        on_overrun: called after this process's stacks are dumped, to have other processes dump
            theirs; it must return quickly.
    """

    def __init__(self, stream: TextIO, on_overrun: Callable[[], object] | None = None) -> None:
        self._stream = stream
        self._on_overrun = on_overrun
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        self._active: list[_Stage] = []
        self._handler_before: Any = None

    @contextmanager
    def stage(self, name: str, deadline_s: float) -> Iterator[None]:
        """Time the block as ``timing/<name>`` and bound it; stages may be nested.

        Raises:
            WorkerError: when the block is still at work at its deadline.
            StackError: when ``timing/<name>`` is not a declared metric.
        """
        watch = self._alarm if _in_main_thread() else self._watcher
        with self._timed(name, deadline_s) as stage, watch(stage):
            yield

    @asynccontextmanager
    async def awaited(self, name: str, deadline_s: float) -> AsyncIterator[None]:
        """As :meth:`stage`, in a task of an event loop: at its deadline the block is cancelled.

        Others may be at work meanwhile, which an alarm would hit instead.
        """
        with self._timed(name, deadline_s) as stage:
            try:
                async with asyncio.timeout(deadline_s) as limit:
                    yield
            finally:
                if limit.expired():
                    self._overrun(stage)

    @contextmanager
    def _timed(self, name: str, deadline_s: float) -> Iterator[_Stage]:
        """Time a stage and say how it went; one that rang raises, whatever came out of it."""
        find(f"timing/{name}")
        stage = _Stage(name, deadline_s, time.monotonic())
        self.say(f"{name}: starts, deadline {deadline_s:g} s")
        ending = "failed"
        try:
            try:
                yield stage
            except Exception as error:
                # The alarm's error may come out as another: Cython wraps it in a SystemError.
                if stage.rung and not isinstance(error, StackError):
                    raise stage.error() from error
                raise
            # Or it was swallowed on its way here.
            if stage.rung:
                raise stage.error()
            ending = "done"
        finally:
            took = time.monotonic() - stage.started
            with self._lock:
                self._seconds[name] = self._seconds.get(name, 0.0) + took
            self.say(f"{name}: {ending} after {took:.2f} s")

    def take_timings(self) -> dict[str, float]:
        """Seconds of the stages that ended since the last call, as metrics; repeats add up."""
        with self._lock:
            taken, self._seconds = self._seconds, {}
        return {f"timing/{name}": seconds for name, seconds in taken.items()}

    @contextmanager
    def _alarm(self, stage: _Stage) -> Iterator[None]:
        if not self._active:
            self._handler_before = signal.signal(signal.SIGALRM, self._ring)
        self._active.append(stage)
        self._arm()
        try:
            yield
        finally:
            # First of all: an alarm that rings during this clean-up must not raise into it.
            stage.closed = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._active.remove(stage)
            if self._active:
                self._arm()
            else:
                signal.signal(signal.SIGALRM, self._handler_before)

    def _arm(self) -> None:
        waiting = self._waiting()
        wait = max(waiting[0].ends - time.monotonic(), _AT_ONCE_S) if waiting else 0.0
        signal.setitimer(signal.ITIMER_REAL, wait)

    def _waiting(self) -> list[_Stage]:
        """The stages that an alarm is still due for, next one first."""
        open_stages = [stage for stage in self._active if not (stage.rung or stage.closed)]
        return sorted(open_stages, key=lambda stage: stage.ends)

    def _ring(self, _number: int, _frame: Any) -> None:
        waiting = self._waiting()
        if not waiting:
            return
        stage = waiting[0]
        self._overrun(stage)
        # Stages around this one keep their own deadlines while it unwinds.
        self._arm()
        raise stage.error()

    @contextmanager
    def _watcher(self, stage: _Stage) -> Iterator[None]:
        timer = threading.Timer(stage.limit_s, self._overrun, [stage])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _overrun(self, stage: _Stage) -> None:
        stage.rung = True
        self.say(f"{stage.name}: over its deadline of {stage.limit_s:g} s; stacks of all threads:")
        faulthandler.dump_traceback(file=self._stream, all_threads=True)
        if self._on_overrun is not None:
            self._on_overrun()

    def say(self, text: str) -> None:
        """Write one line with the time since the start."""
        self._stream.write(f"[{time.monotonic() - self._begun:7.2f} s] {text}\n")
        self._stream.flush()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
