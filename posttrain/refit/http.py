"""Non-colocated transport: engines reload over HTTP, buffer by buffer, from rank 0 of the policy.

For networks that let nothing else through. Each rank of an engine keeps one connection:

    GET /buffers/<k>    200 with the bytes and their ``Content-Digest`` (RFC 9530), as soon as
                        buffer k is filled; 204 when there is no such buffer, which is the end

Asking for buffer k says that those before it were taken. The first answer waits until all
receivers have asked. Every request bears a token of its own refit, which travels inside the offer
and is shown in no log. It is HTTP without TLS: for a network that others read, put both ends
behind a proxy that encrypts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import torch

from posttrain.errors import RefitError
from posttrain.refit.desk import Desk
from posttrain.refit.faults import ended, silent, unreachable
from posttrain.refit.links import HttpLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posttrain.refit.offer import Offer, Request
    from posttrain.refit.stream import Packer

# While one buffer is read, the other is filled.
SLOTS = 2
# How long a closed server may take to notice.
POLL_S = 0.01
RECEIVER = "X-Receiver"
PATH = "/buffers/"


class HttpSender:
    """Rank 0's side: see ``posttrain.refit.transport.Sender``.

    Args:
        request: what the refit is to be.
        sizes: of each buffer, in bytes.
    """

    def __init__(self, request: Request, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._desk = Desk(request)
        token = secrets.token_urlsafe(32)
        own = {"desk": self._desk, "token": token, "timeout": request.patience_s}
        handler = type("Handler", (_Handler,), own)
        self._server = _Server((request.host, 0), handler)
        self.link = HttpLink(request.host, self._server.server_address[1], token)
        self._thread = Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="refit-http", daemon=True
        )
        self._thread.start()

    def send(self, packer: Packer) -> None:
        """Fill a buffer as soon as every receiver has asked for the one after its last content."""
        longest = max(self._sizes, default=0)
        slots = [torch.empty(longest, dtype=torch.uint8) for _ in range(SLOTS)]
        for number, size in enumerate(self._sizes):
            self._desk.wait_for(max(0, number - SLOTS + 1))
            slot = slots[number % SLOTS][:size]
            packer.fill(slot)
            self._desk.put(slot.numpy().data)
        self._desk.close(len(self._sizes))
        self._desk.wait_for(len(self._sizes))

    def close(self) -> None:
        """Stop serving."""
        self._desk.close(0)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Whoever shuts down must not wait for a connection that nobody uses any more.
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    """One receiver's connection."""

    protocol_version = "HTTP/1.1"
    # A buffer's last packet must not wait for the receiver's next word.
    disable_nagle_algorithm = True
    server_version = "posttrain"
    sys_version = ""
    desk: Desk
    token: str
    receiver: int | None = None

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            self._refuse(HTTPStatus.UNAUTHORIZED)
            return
        number, receiver = self.path.removeprefix(PATH), self.headers.get(RECEIVER, "")
        known = receiver.isdecimal() and int(receiver) < len(self.desk.receivers)
        if not (self.path.startswith(PATH) and number.isdecimal() and known):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self.receiver = int(receiver)
        try:
            content = self.desk.ask(self.receiver, int(number))
        except LookupError:
            self._refuse(HTTPStatus.CONFLICT)
            return
        except TimeoutError:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if content is None:
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Digest", content_digest(content))
        self.end_headers()
        self.wfile.write(content)

    def finish(self) -> None:
        super().finish()
        if self.receiver is not None:
            self.desk.leave(self.receiver)

    def log_message(self, *_: Any) -> None:
        """Say nothing: what went wrong is an error on one of the two sides."""

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()


@contextmanager
def receive(link: HttpLink, offer: Offer, receiver: int) -> Iterator[Iterator[torch.Tensor]]:
    """An engine rank's side: see ``posttrain.refit.transport.Link``."""
    patience_s = offer.request.patience_s
    # The sender waits as long for the others before it answers that they are late.
    connection = HTTPConnection(link.host, link.port, timeout=2 * patience_s)
    headers = {"Authorization": f"Bearer {link.token}", RECEIVER: str(receiver)}
    sizes = offer.buffers
    buffer = torch.empty(max(sizes, default=0), dtype=torch.uint8)

    def ask(number: int) -> torch.Tensor | None:
        asked = f"buffer {number} of the policy's weights from {link.host}:{link.port}"
        with _explained(asked, patience_s):
            connection.request("GET", f"{PATH}{number}", headers=headers)
            with connection.getresponse() as answer:
                if answer.status == HTTPStatus.NO_CONTENT:
                    return None
                if answer.status != HTTPStatus.OK:
                    raise ended(asked, f"status {answer.status} {answer.reason}")
                if number >= len(sizes) or answer.length != sizes[number]:
                    raise ended(asked, f"{answer.length} bytes, which is not its size")
                target = buffer[: sizes[number]]
                content = target.numpy().data
                _read(answer.readinto, content, asked)
                wanted, found = answer.getheader("Content-Digest"), content_digest(content)
                if wanted != found:
                    raise ended(asked, f"bytes with {found}, sent with {wanted}")
                return target

    def rest(first: torch.Tensor | None) -> Iterator[torch.Tensor]:
        number, arrived = 0, first
        while arrived is not None:
            yield arrived
            number += 1
            arrived = ask(number)

    try:
        first = ask(0)
        if first is None and sizes:
            raise ended("the policy's weights", "their sender was closed")
        yield rest(first)
    finally:
        connection.close()


def content_digest(content: memoryview) -> str:
    """The value of the header ``Content-Digest``: SHA-256, as RFC 9530 writes it."""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode("ascii")
    return f"sha-256=:{digest}:"


def _read(readinto: Callable[[memoryview], int], target: memoryview, asked: str) -> None:
    done = 0
    while done < len(target):
        count = readinto(target[done:])
        if not count:
            raise ended(asked, f"the connection ended after {done} of {len(target)} bytes")
        done += count


@contextmanager
def _explained(asked: str, patience_s: float) -> Iterator[None]:
    try:
        yield
    except RefitError:
        raise
    except TimeoutError as error:
        raise silent(asked, 2 * patience_s) from error
    except (ConnectionError, HTTPException) as error:
        raise ended(asked, f"{type(error).__name__}: {error}") from error
    except OSError as error:
        raise unreachable(asked, str(error)) from error
