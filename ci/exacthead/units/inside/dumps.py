"""Where this process stands, written by the interpreter's fault handler without Python's help."""

from __future__ import annotations

import faulthandler
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exacthead.units.inside.stream import LastingFile


class Dumps:
    """Stacks of all threads: on a fatal signal, and when the driver asks with SIGUSR1.

    Args:
        crash: takes the stacks of a fatal signal; the C stack too where the interpreter has it.
        asked: takes the stacks that SIGUSR1 asks for.
    """

    def __init__(self, crash: LastingFile, asked: LastingFile) -> None:
        self._crash, self._asked = crash, asked
        self._enable = faulthandler.enable
        faulthandler.register(signal.SIGUSR1, file=asked.descriptor(), all_threads=True)

    def arm(self) -> None:
        """Be ready for a fatal signal; pytest's plugin and nested sessions point it elsewhere."""
        self._enable(file=self._crash.descriptor(), all_threads=True)
