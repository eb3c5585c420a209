"""What is being checked: a factory, the place that it is given, and processes that use it."""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from nemo_gym.token_id_capture.staging import StagingSink, StagingSource

from posttrain.capture.conformance.bounded import bounded
from posttrain.capture.conformance.failure import Failed
from posttrain.capture.conformance.paths import peer_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot, StagedCallRecord

    from posttrain.capture.conformance.calls import Staged

# A peer imports Gym's staging and the factory; whatever that is, it is not minutes.
PEER_S = 120.0


@dataclass(frozen=True)
class Clients:
    """One sink and one source, as the factory made them."""

    sink: StagingSink
    source: StagingSource


@dataclass(frozen=True)
class Subject:
    """An implementation under test.

    Attributes:
        factory: ``module:name`` of a callable that takes the place and returns a sink and a source
            (both may be one object). It is called many times, in this process and in others, and
            all that get the same place must reach the same staged calls. The first call comes from
            the process that lives longest: what is shared can be made there.
        place: passed to the factory; a folder of the checks' own.
    """

    factory: str
    place: str

    @contextmanager
    def clients(self) -> Iterator[Clients]:
        """Make a new sink and source; whichever has a ``close`` is closed."""
        made = make(self.factory, self.place)
        with ExitStack() as stack:
            for each in {id(each): each for each in (made.source, made.sink)}.values():
                if callable(close := getattr(each, "close", None)):
                    stack.callback(bounded, close)
            yield made

    @contextmanager
    def peer(self) -> Iterator[Peer]:
        """Start another process that uses the implementation; it is gone after the block."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "posttrain.capture.conformance.peer"]
            process = subprocess.Popen(
                [*command, self.factory, self.place, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=peer_environment(),
            )
        with Connection(ours.detach()) as connection:
            try:
                yield Peer(process, connection)
            finally:
                process.kill()
                process.wait()


def make(factory: str, place: str) -> Clients:
    """Call a factory.

    Raises:
        Failed: it cannot be imported, or does not return a sink and a source.
    """
    module, colon, name = factory.partition(":")
    if not (module and colon and name):
        raise Failed(f"name the factory as module:callable, not {factory!r}")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Failed(f"the factory {factory} cannot be imported: {error}") from error
    made = function(place)
    if not (isinstance(made, tuple) and len(made) == 2):  # noqa: PLR2004 - a pair
        raise Failed(f"{factory} returned {type(made).__name__}, not a pair of sink and source")
    sink, source = made
    if not isinstance(sink, StagingSink) or not isinstance(source, StagingSource):
        raise Failed(
            f"{factory} returned ({type(sink).__name__}, {type(source).__name__}): the first must"
            " have stage(), the second fetch()"
        )
    return Clients(sink, source)


class Peer:
    """A process that stages and fetches as it is told."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._process = process
        self._connection = connection

    def stage(self, records: Sequence[StagedCallRecord]) -> list[Staged]:
        """Stage records one after another."""
        self.send("stage", list(records))
        return list(self.receive())

    def fetch(self, keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        """Fetch.

        Raises:
            Failed: the source there raised.
        """
        self.send("fetch", list(keys))
        answer = self.receive()
        if isinstance(answer, str):
            raise Failed(f"another process could not fetch {len(keys)} staged calls: {answer}")
        return list(answer)

    def send(self, what: str, argument: Any) -> None:
        """Tell the process what to do, without waiting."""
        self._connection.send((what, argument))

    def receive(self) -> Any:
        """What the process says next.

        Raises:
            Failed: nothing within ``PEER_S`` seconds, or the process is gone.
        """
        if not self._connection.poll(PEER_S):
            raise Failed(f"another process that uses the factory did not answer in {PEER_S} s")
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError) as error:
            code = self._process.wait(PEER_S)
            raise Failed(f"another process that uses the factory ended with code {code}") from error

    def kill(self, said: Any) -> Any:
        """End the process by SIGKILL; returns what it said last, ``said`` unless it said more."""
        self._process.kill()
        self._process.wait(PEER_S)
        while self._connection.poll(0):
            try:
                said = self._connection.recv()
            except (EOFError, ConnectionResetError):
                break
        return said

    def ended(self) -> int:
        """Wait until the process has ended by itself; returns its code, negative for a signal."""
        return self._process.wait(PEER_S)
