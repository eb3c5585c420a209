"""Colocated transport: two buffers in memory that sender and receivers map.

The memory is anonymous (``memfd``): it has no name in /dev/shm that a killed run could leave, and
is not bound by that file system's size. Receivers get it over a Unix socket, on which each buffer
is announced and acknowledged; the end of a process closes its socket, so that nobody waits for the
dead. The socket is in Linux's abstract namespace, and both sides accept their own user only.
"""

from __future__ import annotations

import mmap
import os
import secrets
import socket
import struct
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from posttrain.errors import RefitError
from posttrain.refit.faults import ended, silent, unreachable
from posttrain.refit.links import SharedMemoryLink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posttrain.refit.offer import Offer, Request
    from posttrain.refit.stream import Packer

# While one buffer is read, the other is filled.
SLOTS = 2
_HELLO = struct.Struct("<I")
# Process, user and group id of a peer.
_CREDENTIALS = struct.Struct("3i")
_MEMORY = b"memory"
_FULL = b"full"
_TAKEN = b"taken"
# A message is far shorter; a sequenced packet arrives whole.
_MESSAGE_BYTES = 64


class SharedMemorySender:
    """Rank 0's side: see ``posttrain.refit.transport.Sender``.

    Args:
        request: what the refit is to be.
        sizes: of each buffer, in bytes.

    Raises:
        RefitError: this machine has no memory for the buffers.
    """

    def __init__(self, request: Request, sizes: Sequence[int]) -> None:
        self._request = request
        self._sizes = sizes
        self._open = ExitStack()
        total = sum(sizes[:SLOTS])
        self._memory = os.memfd_create("refit")
        self._open.callback(os.close, self._memory)
        try:
            # All pages now: a page that finds no room later would end the process.
            os.posix_fallocate(self._memory, 0, total)
        except OSError as error:
            self._open.close()
            raise RefitError(
                f"{total} bytes of shared memory for {len(sizes[:SLOTS])} refit buffers",
                f"{error.strerror} (errno {error.errno})",
                "lower refit.buffer_mb, or give this machine or container more memory",
            ) from error
        self._slots = _slots(self._memory, sizes)
        self._listener = self._open.enter_context(_packet_socket())
        address = f"\0posttrain-refit-{secrets.token_hex(16)}"
        self._listener.bind(address)
        self._listener.listen(len(request.receivers))
        self.link = SharedMemoryLink(address)

    def send(self, packer: Packer) -> None:
        """Fill a buffer as soon as every receiver has taken what was in it."""
        with ExitStack() as connections:
            receivers = self._meet(connections)
            for connection in receivers.values():
                socket.send_fds(connection, [_MEMORY], [self._memory])
            for number, size in enumerate(self._sizes):
                if number >= SLOTS:
                    self._taken(receivers, number - SLOTS)
                packer.fill(self._slots[number % SLOTS][:size])
                for name, connection in receivers.items():
                    self._say_full(connection, name, number)
            for number in range(max(0, len(self._sizes) - SLOTS), len(self._sizes)):
                self._taken(receivers, number)

    def close(self) -> None:
        """Give the memory and the address back."""
        self._slots = []
        self._open.close()

    def _meet(self, connections: ExitStack) -> dict[str, socket.socket]:
        """Accept every receiver, in any order."""
        names = self._request.receivers
        met: dict[str, socket.socket] = {}
        self._listener.settimeout(self._request.patience_s)
        while len(met) < len(names):
            missing = ", ".join(name for name in names if name not in met)
            try:
                connection, _ = self._listener.accept()
            except TimeoutError as error:
                raise silent(f"{missing} joining the refit", self._request.patience_s) from error
            connections.enter_context(connection)
            connection.settimeout(self._request.patience_s)
            if not _is_ours(connection):
                continue
            # One that ends before it has said who it is is as missing as one that never came.
            with suppress(OSError):
                hello = connection.recv(_MESSAGE_BYTES)
                if len(hello) == _HELLO.size:
                    (receiver,) = _HELLO.unpack(hello)
                    met[names[receiver]] = connection
        return met

    def _taken(self, receivers: dict[str, socket.socket], number: int) -> None:
        for name, connection in receivers.items():
            asked = f"{name} taking buffer {number}"
            try:
                answer = connection.recv(_MESSAGE_BYTES)
            except TimeoutError as error:
                raise silent(asked, self._request.patience_s) from error
            except OSError as error:
                raise ended(asked, str(error)) from error
            if answer != _TAKEN:
                raise ended(asked, "it closed its connection")

    @staticmethod
    def _say_full(connection: socket.socket, name: str, number: int) -> None:
        try:
            connection.send(_FULL)
        except OSError as error:
            raise ended(f"{name} taking buffer {number}", str(error)) from error


@contextmanager
def receive(
    link: SharedMemoryLink, offer: Offer, receiver: int
) -> Iterator[Iterator[torch.Tensor]]:
    """An engine rank's side: see ``posttrain.refit.transport.Link``."""
    patience_s = offer.request.patience_s
    with _packet_socket() as connection:
        connection.settimeout(patience_s)
        try:
            connection.connect(link.address)
            if not _is_ours(connection):
                raise unreachable("the sender's memory", "a process of another user")
            connection.send(_HELLO.pack(receiver))
            message, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 1)
        except TimeoutError as error:
            raise silent("all receivers joining the refit", patience_s) from error
        except OSError as error:
            where = "the sender on this machine (shared memory reaches no other)"
            raise unreachable(where, str(error)) from error
        if message != _MEMORY or len(descriptors) != 1:
            raise ended("the sender's memory", "it closed its connection")
        try:
            slots = _slots(descriptors[0], offer.buffers)
        finally:
            os.close(descriptors[0])
        yield _buffers(connection, slots, offer)


def _buffers(
    connection: socket.socket, slots: Sequence[torch.Tensor], offer: Offer
) -> Iterator[torch.Tensor]:
    for number, size in enumerate(offer.buffers):
        asked = f"buffer {number} of the policy's weights"
        try:
            message = connection.recv(_MESSAGE_BYTES)
        except TimeoutError as error:
            raise silent(asked, offer.request.patience_s) from error
        except OSError as error:
            raise ended(asked, str(error)) from error
        if message != _FULL:
            raise ended(asked, "the sender closed its connection")
        yield slots[number % SLOTS][:size]
        # Whoever does not hear this is gone, and is missed at the next buffer.
        with suppress(OSError):
            connection.send(_TAKEN)


def _packet_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _slots(descriptor: int, sizes: Sequence[int]) -> list[torch.Tensor]:
    """The memory as buffers of bytes; unmapped when the last of them is dropped."""
    shared = sizes[:SLOTS]
    # Receivers only read it, but torch warns about memory that it must not write to.
    memory = torch.frombuffer(mmap.mmap(descriptor, sum(shared)), dtype=torch.uint8)
    return list(memory.split(list(shared)))


def _is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())
