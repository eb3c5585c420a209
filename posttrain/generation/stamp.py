"""Which weights computed which tokens of a request: noted in the engine's thread, for who asks."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vllm.v1.request import Request

# Of the request that this task is about to make; nobody asks unless it is set.
_WANTED: ContextVar[Stamp | None] = ContextVar("stamp", default=None)


@dataclass
class Stamp:
    """What the engine knows of one request that its answer does not say.

    Attributes:
        prompt_token_ids: those that the engine took; None before it did.
        versions: (generated token, version): from that token on it was this version's weights. The
            first is the version that was served when the request was admitted.
    """

    prompt_token_ids: Sequence[int] | None = None
    versions: list[tuple[int, int]] = field(default_factory=list)


@contextmanager
def stamped() -> Iterator[Stamp]:
    """Have the one request that is made in this block noted."""
    stamp = Stamp()
    token = _WANTED.set(stamp)
    try:
        yield stamp
    finally:
        _WANTED.reset(token)


def wanted() -> Stamp | None:
    """The stamp that the request of this task is to have."""
    return _WANTED.get()


class Stamps:
    """The stamps of an engine's requests; all methods run in the engine's thread.

    A stamp is kept as long as somebody waits for it.

    Attributes:
        version: of the weights that are served; may be read in any thread.
    """

    def __init__(self) -> None:
        self.version = 0
        self._of: WeakValueDictionary[str, Stamp] = WeakValueDictionary()

    def admitted(self, name: str, stamp: Stamp, prompt: Sequence[int] | None, version: int) -> None:
        """Note a request that the scheduler has just taken."""
        stamp.prompt_token_ids = prompt
        stamp.versions = [(0, version)]
        self._of[name] = stamp

    def changed(self, requests: Mapping[str, Request], version: int) -> None:
        """Note other weights, before any step is taken with them.

        A request that has no token yet has nothing of the former weights: whatever they computed
        for it is forgotten with their cache. It counts as admitted now.

        Args:
            requests: those that the scheduler has, by name.
            version: of the weights from now on.
        """
        self.version = version
        for name, stamp in list(self._of.items()):
            if (request := requests.get(name)) is None:
                continue
            if done := request.num_output_tokens:
                stamp.versions.append((done, version))
            else:
                stamp.versions = [(0, version)]
