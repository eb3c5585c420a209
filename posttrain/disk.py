"""What a run keeps on the disk: whole lines, and a clear word when there is no room."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from posttrain.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType


@contextmanager
def writing(what: str, folder: Path) -> Iterator[None]:
    """Name what could not be written, and where, when the block fails to.

    Raises:
        StackError: in place of the system's error.
    """
    try:
        yield
    except OSError as error:
        raise StackError(
            f"write {what} to {folder}",
            error.strerror or str(error),
            "free space there, or choose another run.dir",
        ) from error


class Lines:
    """A file that grows by whole lines; use it as a context manager.

    What was appended is on the disk. What does not fit on the disk is taken back as a whole, so
    that the lines before it stay readable.

    Args:
        path: must not exist yet, unless the lines that it has are to stay.
        grow: whether they are.

    Raises:
        OSError: the file is there already, or cannot be made.
    """

    def __init__(self, path: Path, *, grow: bool = False) -> None:
        self._file = path.open("ab" if grow else "xb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def append(self, *lines: str) -> None:
        """Write all of the lines, or none.

        Raises:
            OSError: the disk takes no more.
        """
        start = self._file.tell()
        rest = "".join(f"{line}\n" for line in lines).encode()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(start)
            self._file.seek(start)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()
