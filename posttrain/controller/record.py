"""What a run leaves of each step: its samples and metrics on the disk, and a line for people."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.disk import Lines, writing
from posttrain.metrics.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from posttrain.metrics.writer import MetricsWriter
    from posttrain.stages import Stages
    from posttrain.training import Metrics


@dataclass(frozen=True)
class Record:
    """The record of one run.

    Attributes:
        writer: of the metrics.
        lines: the samples' file.
        stages: whose timings belong to the step that is written.
        steps: how many the run takes.
    """

    writer: MetricsWriter
    lines: Lines
    stages: Stages
    steps: int

    def write(self, step: int, metrics: Metrics, samples: Sequence[Mapping[str, Any]]) -> None:
        """Write a step, as soon as it is done.

        Args:
            step: its number, from 1.
            metrics: the step's, without its timings.
            samples: what it was trained on, as JSON objects.

        Raises:
            StackError: the disk refuses, or a metric is not declared.
        """
        with writing("samples", self.writer.path.parent):
            self.lines.append(*(json.dumps({"step": step, **sample}) for sample in samples))
        metrics = {**metrics, **self.stages.take_timings()}
        self.writer.write(step, metrics)
        self.stages.say(progress(step, self.steps, metrics))


@contextmanager
def recording(
    writer: MetricsWriter, samples_file: Path, stages: Stages, steps: int, *, grow: bool = False
) -> Iterator[Record]:
    """Open the record of a run in the folder of ``samples_file``.

    Args:
        writer: of the metrics.
        samples_file: where the samples go.
        stages: the run's.
        steps: how many steps the run takes.
        grow: whether the file goes on with an earlier part of the run.
    """
    with writing("samples", samples_file.parent):
        lines = Lines(samples_file, grow=grow)
    with lines:
        yield Record(writer, lines, stages, steps)
