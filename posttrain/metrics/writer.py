"""Write metrics as JSON lines, for contracts, and as TensorBoard events, for people."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from posttrain.disk import Lines, writing
from posttrain.errors import StackError
from posttrain.metrics.metric import TEXT, Metric
from posttrain.metrics.table import find

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

Number = int | float


class MetricsWriter:
    """The metrics of one run; use it as a context manager.

    A line is on the disk, whole, when :meth:`write` returns.

    Args:
        run_dir: the run's folder; ``metrics.jsonl`` must not exist in it yet, unless the run goes
            on.
        after: the last step of the run's earlier part, of which nothing later is left there; None
            for a new run.
        events: whether TensorBoard's files are written too. A run whose steps only repeat each
            other has no curve to show, and its process need not have TensorBoard.

    Raises:
        StackError: when the folder already holds metrics, or cannot be written.
    """

    def __init__(self, run_dir: Path, *, after: int | None = None, events: bool = True) -> None:
        self.path = run_dir / "metrics.jsonl"
        self._last_step = -1 if after is None else after
        if after is None and self.path.exists():
            raise StackError(
                f"write metrics to {self.path}",
                "metrics of an earlier run",
                "give each run a fresh folder (run.dir), or go on with this one"
                " (checkpoint.resume=auto)",
            )
        self._hook_before = threading.excepthook
        threading.excepthook = self._thread_failed
        with self._writing():
            run_dir.mkdir(parents=True, exist_ok=True)
            self._lines = Lines(self.path, grow=after is not None)
            self._events = _events(run_dir / "tensorboard") if events else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, step: int, metrics: Mapping[str, Number | str]) -> None:
        """Write all metrics of one step, as one line.

        Args:
            step: the step's number, larger than that of the line before.
            metrics: values by declared name.

        Raises:
            StackError: for an unknown name, a value of the wrong type, a step that does not
                follow, or a disk that takes no more.
        """
        if step <= self._last_step:
            raise StackError(
                f"write metrics of step {step}",
                f"step {self._last_step} is already written",
                "write each step once, in order",
            )
        declared = {name: find(name) for name in metrics}
        for name, value in metrics.items():
            _check_type(name, declared[name], value)
        # A loss that is not a number must reach the contract as what it is: neither null, nor an
        # absent key, nor an exception that loses the rest of the line. Hence NaN literals.
        line = json.dumps({"step": step, **metrics}, allow_nan=True)
        with self._writing():
            self._lines.append(line)
            self._last_step = step
            if self._events is not None:
                _add(self._events, step, metrics)

    def close(self) -> None:
        """Flush and close both files."""
        self._lines.close()
        try:
            with self._writing():
                if self._events is not None:
                    self._events.close()
        finally:
            threading.excepthook = self._hook_before

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """Leave out of the log what TensorBoard's thread also hands to whoever writes next."""
        if not type(failure.thread).__module__.startswith("tensorboard."):
            self._hook_before(failure)

    def _writing(self) -> AbstractContextManager[None]:
        return writing("metrics", self.path.parent)


def _events(folder: Path) -> Any:
    # A second of imports that only the writing process should pay for.
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder))


def _add(events: Any, step: int, metrics: Mapping[str, Number | str]) -> None:
    """Write one event for all numbers: one each costs a step milliseconds in checksums."""
    import numpy as np
    from tensorboard.compat.proto.event_pb2 import Event

    event = Event(wall_time=time.time(), step=step)
    # Events hold single precision; what is beyond it is shown as infinite, without a warning.
    with np.errstate(over="ignore"):
        for name, value in metrics.items():
            if not isinstance(value, str):
                event.summary.value.add(tag=name, simple_value=float(np.float32(value)))
    events.add_event(event)
    events.flush()


def _check_type(name: str, metric: Metric, value: object) -> None:
    wanted = "text" if metric.unit == TEXT else "a number"
    fits = (
        isinstance(value, str)
        if metric.unit == TEXT
        else isinstance(value, int | float) and not isinstance(value, bool)
    )
    if not fits:
        raise StackError(
            f"write the metric {name!r}",
            f"{value!r} of type {type(value).__name__}",
            f"give {wanted}",
        )
