"""The terminal of a run; its reader may go away (``| head``, a lost line) and the run goes on."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class Terminal(Console):
    """A console whose reader may leave: what nobody reads is dropped, and the run goes on."""

    def on_broken_pipe(self) -> None:
        """Called by rich, whose own answer would be to exit."""
        drop_output()


def drop_output() -> None:
    """From here on whatever is written to standard output leads nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
