"""What the thread that owns an engine core is asked, and what is asked of its health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from vllm.v1.engine.core import EngineCore


@dataclass
class Liveness:
    """What vLLM's front end asks of a client's resources: whether the engine is dead."""

    engine_dead: bool = False


@dataclass(frozen=True)
class Call:
    """One call of the engine core that somebody waits for."""

    function: Callable[[EngineCore], Any]
    answer: Future[Any]

    def run(self, core: EngineCore) -> None:
        """Call it; an exception belongs to the caller and does not end the engine."""
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            result = self.function(core)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)
