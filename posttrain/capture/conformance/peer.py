"""The other process of a check: stages and fetches what it is sent, and dies when it is told."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from posttrain.capture.conformance.calls import staged
from posttrain.capture.conformance.subject import make

if TYPE_CHECKING:
    from posttrain.capture.conformance.subject import Clients


def main(factory: str, place: str, descriptor: str) -> None:
    """Answer until the other end is closed."""
    with Connection(int(descriptor)) as connection:
        clients = make(factory, place)
        while True:
            try:
                what, argument = connection.recv()
            except EOFError:
                return
            if what == "fetch":
                connection.send(_fetched(clients, argument))
            elif what == "stage":
                connection.send([staged(clients.sink, each) for each in argument])
            elif what == "stage and die":
                answers = [staged(clients.sink, each) for each in argument]
                # To the check, not to whoever waits for the call: that reply is never made.
                connection.send(answers)
                os.kill(os.getpid(), signal.SIGKILL)
            elif what == "stage one by one":
                for each in argument:
                    connection.send(each.model_call_id)
                    staged(clients.sink, each)


def _fetched(clients: Clients, keys: list[str]) -> list[object] | str:
    try:
        return list(clients.source.fetch(keys))
    except Exception as error:  # noqa: BLE001 - whatever it is, the check reports it
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(*sys.argv[1:])
