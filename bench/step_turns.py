"""How bench_step.py and its sides talk: a turn is a number of steps, answered with their seconds.

All sides live at once and take turns, so that whatever the machine does meanwhile meets all of
them. A side reads one JSON object a line from its standard input and answers on a pipe of its own,
since libraries write to standard output as they like; that and standard error go to a log.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Self

from bench.step_work import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

ANSWERS_VARIABLE = "BENCH_STEP_ANSWERS"
_TAIL_BYTES = 3000
_PATIENCE_S = 40.0
# After an error.
_HASTE_S = 5.0


@dataclass(frozen=True)
class Asked:
    """What a side is to do in one turn.

    Attributes:
        row: which of the rows that it measures.
        steps: how many are timed.
        warm: how many come before those.
    """

    row: str
    steps: int
    warm: int


@dataclass(frozen=True)
class Took:
    """What a side did in one turn.

    Attributes:
        seconds: of each timed step.
        weights: digest of the trained weights after the turn; empty where nothing is trained.
        loss: of the last step; 0 where nothing is trained.
        tokens: generated in the last step.
    """

    seconds: list[float]
    weights: str
    loss: float
    tokens: int


class Answers:
    """The side's end."""

    def __init__(self) -> None:
        self._pipe: IO[str] = os.fdopen(int(os.environ.pop(ANSWERS_VARIABLE)), "w")

    def say(self, **content: Any) -> None:
        """Answer with one object: once when ready, then once a turn."""
        self._pipe.write(json.dumps(content) + "\n")
        self._pipe.flush()

    @staticmethod
    def next() -> Asked | None:
        """Wait for the next turn; None when there is none."""
        line = sys.stdin.readline()
        return Asked(**json.loads(line)) if line else None

    def __iter__(self) -> Iterator[Asked]:
        while (asked := self.next()) is not None:
            yield asked


def timed(step: Callable[[], object], asked: Asked) -> list[float]:
    """Take a turn's steps; the seconds of those that count."""
    seconds = []
    for number in range(asked.warm + asked.steps):
        started = time.perf_counter()
        step()
        if number >= asked.warm:
            seconds.append(time.perf_counter() - started)
    return seconds


class Side:
    """The driver's end: a process that takes turns. Use it as a context manager.

    Args:
        name: in errors, and of its log.
        command: program and arguments.
        environment: variables beside the driver's own.
        log: takes its output.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self._log = log
        self._weights = ""
        reading, writing = os.pipe()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment, ANSWERS_VARIABLE: str(writing)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        os.close(writing)
        self._pipe = os.fdopen(reading, "rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close its input, which ends it; what is left of its group is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_HASTE_S if kind else _PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._pipe.close()

    def answer(self, deadline_s: float) -> dict[str, Any]:
        """Wait for what it says next."""
        ready, _, _ = select.select([self._pipe], [], [], deadline_s)
        line = self._pipe.readline() if ready else b""
        if not line:
            why = "ended" if ready else f"said nothing for {deadline_s:.0f} s"
            tail = self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
            msg = f"{self.name} {why}; its log {self._log} ends:\n{tail}"
            raise RuntimeError(msg)
        content: dict[str, Any] = json.loads(line)
        return content

    def turn(self, asked: Asked, deadline_s: float, *, tokens: int, trains: bool) -> list[float]:
        """Let it take a turn, and check that it did the work.

        Returns:
            Seconds of each timed step.

        Raises:
            RuntimeError: it ended, is late, generated another number of tokens than ``tokens``, or
                its weights are what they were before though it ``trains``.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(vars(asked)).encode() + b"\n")
        self._process.stdin.flush()
        took = Took(**self.answer(deadline_s))
        problems = []
        if took.tokens != tokens:
            problems.append(f"{took.tokens} tokens instead of {tokens}")
        if trains and not math.isfinite(took.loss):
            problems.append(f"loss {took.loss}")
        if trains and (not took.weights or took.weights == self._weights):
            problems.append(f"the weights did not change: {took.weights!r}")
        if len(took.seconds) != asked.steps:
            problems.append(f"{len(took.seconds)} steps instead of {asked.steps}")
        if problems:
            msg = f"{self.name}, {asked.row}: {'; '.join(problems)}"
            raise RuntimeError(msg)
        self._weights = took.weights or self._weights
        return took.seconds
