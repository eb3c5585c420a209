"""The terminal of a run; its reader may go away (``| head``, a lost line) and the run goes on."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator


class Terminal(Console):
    """A console whose reader may leave: what nobody reads is dropped, and the run goes on."""

    def on_broken_pipe(self) -> None:
        """Called by rich, whose own answer would be to exit."""
        drop_output()

    def print(self, *objects: Any, **options: Any) -> None:
        """The same as rich's, on a line that may be lost."""
        with may_be_lost():
            super().print(*objects, **options)

    def out(self, *objects: Any, **options: Any) -> None:
        """The same as rich's, on a line that may be lost."""
        with may_be_lost():
            super().out(*objects, **options)


@contextmanager
def may_be_lost() -> Iterator[None]:
    """Write to standard output within the block; where that cannot be done, nothing is any more.

    A reader that has left is a broken pipe, a terminal that has gone an input/output error, and a
    file that output was sent to can be on a full disk. None of them is a fault of what runs.
    """
    try:
        yield
    except OSError:
        drop_output()


def drop_output() -> None:
    """From here on whatever is written to standard output leads nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
