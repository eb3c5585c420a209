"""Requests that are asked for together and wanted only when the last of them is done."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vllm.v1.engine import EngineCoreOutput

Completion = tuple[tuple[int, ...], tuple[float, ...]]


class Batch:
    """What the engine's thread keeps of a batch until it is whole.

    vLLM's front end would take the outputs of every step in the event loop's thread, for which the
    engine's thread waits at each change of the interpreter's lock. Nobody wants a token of a batch
    before its last one, so they stay where they are made.

    Args:
        names: the requests' ids, in the order of the answer.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.answer: Future[list[Completion]] = Future()
        # It is given up by name, in the engine's thread, and never under that thread's hands.
        self.answer.set_running_or_notify_cancel()
        self._tokens: dict[str, list[int]] = {name: [] for name in names}
        self._logprobs: dict[str, list[float]] = {name: [] for name in self._tokens}
        self._open = set(self._tokens)

    @property
    def names(self) -> list[str]:
        """All requests, in the answer's order."""
        return list(self._tokens)

    def take(self, output: EngineCoreOutput) -> None:
        """Keep the new tokens of one request; the last one of all answers.

        The log-probability of the token that was drawn comes first in its row.
        """
        name = output.request_id
        self._tokens[name] += output.new_token_ids
        if output.new_logprobs is not None:
            self._logprobs[name] += output.new_logprobs.logprobs[:, 0].tolist()
        if output.finish_reason is not None:
            self._open.discard(name)
            if not self._open:
                self.answer.set_result(self._completions())

    def _completions(self) -> list[Completion]:
        pairs = zip(self._tokens.values(), self._logprobs.values(), strict=True)
        return [(tuple(tokens), tuple(logprobs)) for tokens, logprobs in pairs]
