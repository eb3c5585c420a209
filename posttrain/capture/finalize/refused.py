"""What makes a rollout a placeholder, as an error on its way to the finalizer."""

from __future__ import annotations

from posttrain.capture.finalize.causes import CAUSES
from posttrain.errors import StackError


class RefusedError(StackError):
    """A rollout that is not to be trained on.

    Args:
        cause: a name of :data:`~posttrain.capture.finalize.causes.CAUSES`.
        found: what exactly was found.
    """

    def __init__(self, cause: str, found: str) -> None:
        super().__init__("a rollout's verified tokens", found, f"{cause}: {CAUSES[cause].meaning}")
        self.args = (cause, found)
        self.cause = cause
