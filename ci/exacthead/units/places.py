"""Where a shard's streams lie below its item's folder; the driver writes them, the reader reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ProcessFiles:
    """The files of one pytest process."""

    folder: Path
    number: int

    def _file(self, ending: str) -> Path:
        return self.folder / f"process-{self.number:04d}.{ending}"

    @property
    def settings(self) -> Path:
        """What it was told."""
        return self._file("settings.json")

    @property
    def stream(self) -> Path:
        """Its events."""
        return self._file("jsonl")

    @property
    def log(self) -> Path:
        """Its standard output and error."""
        return self._file("log")

    @property
    def crash(self) -> Path:
        """The stacks of a fatal signal."""
        return self._file("crash.txt")


@dataclass(frozen=True)
class ShardFiles:
    """The files of one shard; ``item`` is the item's folder."""

    item: Path

    @property
    def folder(self) -> Path:
        """The folder of all streams."""
        return self.item / "artifacts" / "tests"

    @property
    def journal(self) -> Path:
        """The driver's own events."""
        return self.folder / "driver.jsonl"

    @property
    def stacks(self) -> Path:
        """Where processes write stacks when the item has no folder for that."""
        return self.folder / "stacks"

    def process(self, number: int) -> ProcessFiles:
        """The files of one process."""
        return ProcessFiles(self.folder, number)

    def numbers(self) -> list[int]:
        """The processes that left a stream, in order."""
        streams = self.folder.glob("process-*.jsonl")
        return sorted(int(path.name.split("-")[1].split(".")[0]) for path in streams)
