"""Take back what a killed run wrote about steps after the checkpoint, which will be taken again.

Lines go to ``undone.metrics.jsonl`` and ``undone.samples.jsonl``, so that nothing is lost; the
events of TensorBoard, which say the same, go for good.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LINES = ("metrics.jsonl", "samples.jsonl")
# Around the data of each record of an event file: its length, and a checksum of both.
_FRAME_BYTES = 8 + 4 + 4


def cut_results(run_dir: Path, step: int) -> dict[str, int]:
    """Leave in a run's folder what it wrote about the steps up to ``step``.

    It may be interrupted at any point and done again.

    Returns:
        The last step that is left in each of the files that are there, 0 for none.

    Raises:
        OSError: the disk refuses.
    """
    left = {}
    for name in _LINES:
        if (run_dir / name).is_file():
            left[name] = _cut_lines(run_dir / name, step)
    for path in sorted(run_dir.glob("tensorboard/events.out.tfevents.*")):
        _cut_events(path, step)
    return left


def _cut_lines(path: Path, step: int) -> int:
    last, end = 0, 0
    with path.open("r+b") as file:
        while line := file.readline():
            of = _step_of(line)
            if of is None or of > step:
                break
            last, end = of, file.tell()
        file.seek(end)
        if rest := file.read():
            _put_aside(path.with_name(f"undone.{path.name}"), rest)
            file.truncate(end)
            os.fsync(file.fileno())
    return last


def _step_of(line: bytes) -> int | None:
    """The step that a line is about; None for one that was not written to its end."""
    if not line.endswith(b"\n"):
        return None
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) else None


def _put_aside(path: Path, lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(lines if lines.endswith(b"\n") else lines + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _cut_events(path: Path, step: int) -> None:
    # A second of imports that only a resumed run pays for.
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    end = 0
    # It ends where a record was not written to its end.
    for record in RawEventFileLoader(str(path)).Load():
        if Event.FromString(record).step > step:
            break
        end += len(record) + _FRAME_BYTES
    with path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
