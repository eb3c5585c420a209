"""The webhook: real servers that answer, refuse, trickle and never answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from exacthead.report.model import Head
from exacthead.report.notify import check_address, notify
from unit.exacthead.report.making import FAILURE, report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHORT_S = 0.3


@contextmanager
def webhook(code: int = 200) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server that answers with ``code``: its address, and what it was told."""
    told: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", told
        finally:
            server.shutdown()


def test_the_verdict_is_posted_once(tmp_path: Path) -> None:
    with webhook() as (address, told):
        assert notify(report(), address, tmp_path) == ""
        again = notify(report(run="another", seconds=9.0), address, tmp_path)

    assert again == "the webhook has this verdict already"
    (said,) = told
    assert said["text"] == (
        "Exacthead: 1 new failure, 1 known, 1 not run, 1 passed, at head c0ffeec0ffee on small"
    )
    assert said["new_failures"] == [
        {"name": FAILURE.name, "class": "assertion", "cause": "assert 1 == 2"}
    ]


def test_what_is_news_is_posted_again(tmp_path: Path) -> None:
    red, green = report(), report(state="passed", failures=(), verdict="3 passed")
    other = report(failures=(replace(FAILURE, group="assertion: another"),))
    head = report(head=Head("beef" * 10, "", dirty=False))
    with webhook() as (address, told):
        said = [notify(each, address, tmp_path) for each in (red, other, green, red, head, head)]

    assert said == ["", "", "", "", "", "the webhook has this verdict already"]
    assert len(told) == 5


def test_two_webhooks_are_both_told(tmp_path: Path) -> None:
    with webhook() as (one, told), webhook() as (two, more):
        assert [notify(report(), each, tmp_path) for each in (one, two)] == ["", ""]

    assert (len(told), len(more)) == (1, 1)


def test_a_refusal_is_said_and_tried_again(tmp_path: Path) -> None:
    with webhook(500) as (address, told):
        said = [notify(report(), address, tmp_path) for _ in range(2)]

    assert said == ["the webhook was not told: HTTP 500"] * 2
    assert len(told) == 2


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_a_server_that_never_answers_costs_the_deadline_and_no_more(
    tmp_path: Path, answer: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            # Each byte comes within every socket's own limit.
            connection, _ = server.accept()
            with connection:
                for byte in answer * 100:
                    try:
                        connection.send(bytes([byte]))
                    except OSError:
                        return
                    time.sleep(0.1)

        threading.Thread(target=trickle, daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        started = time.monotonic()
        said = notify(report(), address, tmp_path, SHORT_S)
        spent = time.monotonic() - started

    assert said.startswith("the webhook was not told: ")
    # Far below what a trickle would take; nothing here is measured.
    assert spent < SHORT_S + 5


def test_nobody_there_is_said_without_the_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/token-of-the-hook"

    said = notify(report(), address, tmp_path)

    assert said == "the webhook was not told: URLError"


def test_a_memory_that_is_damaged_or_cannot_be_kept_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "notified.json").write_text("[1", encoding="utf-8")
    with webhook() as (address, told):
        assert notify(report(), address, tmp_path) == ""
        said = notify(report(), address, tmp_path / "gone")

    assert said.startswith("the webhook was told, which could not be noted")
    assert len(told) == 2


@pytest.mark.parametrize("address", ["", "hook", "file:///etc/passwd", "http://", "ftp://a/b"])
def test_what_is_no_webhook_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"^no address of a webhook: give http://... or https"):
        check_address(address)
