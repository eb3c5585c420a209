"""Connections to a peer that does not keep to one answer for each request."""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import zmq

from posttrain.dataplane.connections import Connections, plain_socket
from posttrain.dataplane.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posttrain.dataplane.connections import Answer

SOON_S = 20.0


def opened(frames: list[zmq.Frame]) -> Answer:
    return frames[0].bytes.decode(), None


@pytest.fixture
def peer() -> Iterator[zmq.Socket[bytes]]:
    with plain_socket(zmq.ROUTER) as socket:
        yield socket


@pytest.fixture
def connections(peer: zmq.Socket[bytes]) -> Iterator[Connections]:
    made = Connections(f"tcp://127.0.0.1:{peer.bind_to_random_port('tcp://127.0.0.1')}", opened)
    yield made
    made.close()


def test_an_answer_that_comes_twice_is_not_the_next_requests(
    peer: zmq.Socket[bytes], connections: Connections
) -> None:
    first = connections.ask([b"one"])
    sender, _ = peer.recv_multipart()
    peer.send_multipart([sender, b"1"])
    assert first.wait(SOON_S)
    peer.send_multipart([sender, b"1 again"])
    (idle,) = connections._idle
    assert idle.poll(1000 * SOON_S)
    second = connections.ask([b"two"])
    other, asked = peer.recv_multipart()
    assert (asked, other != sender) == (b"two", True)
    assert not second.wait(0.1)
    peer.send_multipart([other, b"2"])
    assert second.wait(SOON_S)
    assert second.result() == "2"


def test_an_answer_that_cannot_be_read_ends_its_call(
    peer: zmq.Socket[bytes], connections: Connections
) -> None:
    call = connections.ask([b"one"])
    sender, _ = peer.recv_multipart()
    peer.send_multipart([sender, b"\xff"])
    for _ in range(2):
        assert call.wait(SOON_S)
        with pytest.raises(UnicodeDecodeError):
            call.result()
    assert connections._idle == []


def ask_until_no_socket_is_left(limit: int) -> None:
    """For a process of its own: whatever else has sockets or files here would fail."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if limit < 0 else limit, hard))
    peer = plain_socket(zmq.ROUTER)
    made = Connections(f"tcp://127.0.0.1:{peer.bind_to_random_port('tcp://127.0.0.1')}", opened)
    calls = []

    def ask_on() -> None:
        while len(calls) < 5000:
            calls.append(made.ask([b"?"]))

    with pytest.raises(UnavailableError, match="no socket for one request more"):
        ask_on()
    assert len(calls) > 20
    for call in calls:
        call.drop()
    call = None
    while call is None:  # its thread closes sockets a little later
        with suppress(UnavailableError):
            call = made.ask([b"after"])
    while (got := peer.recv_multipart())[1] != b"after":
        pass
    peer.send_multipart([got[0], b"answer"])
    assert call.wait(SOON_S)
    assert call.result() == "answer"
    made.close()
    peer.close()


@pytest.mark.parametrize("limit", [-1, 200], ids=["sockets", "files"])
def test_a_process_that_can_have_no_more_sockets_is_told_so(limit: int) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=ask_until_no_socket_is_left, args=(limit,)
    )
    process.start()
    process.join(60)
    process.kill()
    process.join()
    assert process.exitcode == 0


def test_a_call_of_connections_that_are_closed_is_cancelled_each_time(
    peer: zmq.Socket[bytes], connections: Connections
) -> None:
    call = connections.ask([b"one"])
    assert peer.recv_multipart()[1] == b"one"
    connections.close()
    for _ in range(2):
        with pytest.raises(CancelledError):
            call.wait(0)
