"""The folder of a run's checkpoints: each appears whole, by one rename, or not at all.

What is not finished, or is being removed, has a name that starts with a dot. Nothing points at the
newest checkpoint: it is the one with the greatest step whose content is what its manifest says.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posttrain.checkpoint.manifest import NAME, CheckpointError, Manifest

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

_STEP = re.compile(r"step-(?P<step>[0-9]{8,})")
_PARTIAL, _REMOVED, _LOCK = ".partial-", ".removed-", ".lock"


class CheckpointStore:
    """The checkpoints in a folder.

    Args:
        folder: made when the first one is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> dict[int, Path]:
        """The folders of all checkpoints by step, oldest first, damaged ones included."""
        if not self.folder.is_dir():
            return {}
        matches = [(_STEP.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return dict(sorted((int(match["step"]), path) for match, path in matches if match))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs from writing here; what a killed one left unfinished is removed.

        Raises:
            CheckpointError: another run writes here.
            OSError: the folder cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("ab") as file:
            try:
                # The kernel lets go of it when the process ends, however it ends.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CheckpointError(
                    f"write checkpoints to {self.folder}",
                    "another run writes there",
                    "end that run, or give this one another checkpoint.dir",
                ) from error
            self._sweep()
            yield

    @contextmanager
    def writing(self, step: int) -> Iterator[Path]:
        """A folder for a checkpoint's files, which is gone again unless it was published.

        Raises:
            OSError: the folder cannot be made.
        """
        partial = self.folder / f"{_PARTIAL}{step}-{uuid.uuid4().hex[:8]}"
        partial.mkdir()
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def publish(self, partial: Path, manifest: Manifest) -> Path:
        """Make the files in ``partial``, which are on the disk, a checkpoint.

        A damaged checkpoint of the same step gives way.

        Raises:
            OSError: the disk takes no more; ``partial`` is then no checkpoint.
        """
        final = self.folder / f"step-{manifest.step:08d}"
        with (partial / NAME).open("x", encoding="utf-8") as file:
            file.write(manifest.text())
            file.flush()
            os.fsync(file.fileno())
        for folder in {(partial / name).parent for name in manifest.files} | {partial}:
            sync_folder(folder)
        if final.exists():
            self._remove(final)
        partial.rename(final)
        sync_folder(self.folder)
        return final

    def prune(self, newest: int, keep: int | None, damaged: Container[int] = ()) -> None:
        """Remove old checkpoints, after the one of the step ``newest`` was published.

        Args:
            newest: this one stays in any case, and so do those of later steps.
            keep: how many stay, with the newest; None for all.
            damaged: steps whose checkpoints are known to be damaged; they do not count, and go.
        """
        folders = self.steps()
        older = [step for step in folders if step < newest]
        whole = [step for step in older if step not in damaged]
        kept = whole if keep is None else whole[len(whole) - min(keep - 1, len(whole)) :]
        for step in older:
            if step not in kept:
                self._remove(folders[step])

    def _remove(self, folder: Path) -> None:
        """First the name goes, at once, then the files."""
        hidden = self.folder / f"{_REMOVED}{uuid.uuid4().hex[:8]}"
        folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _sweep(self) -> None:
        for path in self.folder.iterdir():
            if path.name.startswith((_PARTIAL, _REMOVED)):
                shutil.rmtree(path, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk.

    Raises:
        OSError: the file system refuses.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
