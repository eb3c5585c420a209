"""Processes that live and die together, as if they were one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.environment.process import Child


class Fellows:
    """Ends all of several processes as soon as one has ended.

    Gym's agents ask a model server that is gone again and again, and a rollout would wait for them
    until its deadline.

    Args:
        children: running.
    """

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = tuple(children)
        self._lock = threading.Lock()
        self._left = False
        self._first: Child | None = None
        for child in self._children if len(self._children) > 1 else ():
            threading.Thread(target=self._watch, args=(child,), daemon=True).start()

    @property
    def first(self) -> Child | None:
        """The one that ended by itself, if one did and others were ended for it."""
        with self._lock:
            return self._first

    def leave(self) -> None:
        """Let each end alone from now on: they are being stopped."""
        with self._lock:
            self._left = True

    def _watch(self, child: Child) -> None:
        child.wait()
        with self._lock:
            if self._left or self._first is not None:
                return
            self._first = child
            for other in self._children:
                if other is not child:
                    other.kill()
