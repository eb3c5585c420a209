"""Fetching the pinned uv from indexes that are really served, and from folders."""

from __future__ import annotations

import base64
import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.fetch import Pin, fetch_wheel
from exacthead.workers.index import Indexes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "uv-1.2.3-py3-none-manylinux2014_x86_64.whl"
WHEEL = b"a wheel"
PIN = Pin("uv", "1.2.3", "manylinux2014_x86_64.whl", frozenset({hashlib.sha256(WHEEL).hexdigest()}))


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; below /private/ only to those who log in."""

    def do_GET(self) -> None:
        token = base64.b64encode(b"me:p@ss").decode()
        if self.path.startswith("/private/") and self.headers["Authorization"] != f"Basic {token}":
            self.send_error(401)
        elif self.path == "/moved/uv/":
            self.send_response(302)
            self.send_header("Location", "/simple/uv/")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    for index in ("simple", "private"):
        folder = tmp_path / "www" / index / "uv"
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(
            '<a href="uv-1.2.3.tar.gz#sha256=00">source</a>'
            '<a href="uv-1.2.30-py3-none-manylinux2014_x86_64.whl">another</a>'
            f'<a href="../../files/{index}/{FILE}#sha256=00">the wheel</a>',
            encoding="utf-8",
        )
        files = tmp_path / "www" / "files" / index
        files.mkdir(parents=True)
        (files / FILE).write_bytes(WHEEL)
    (tmp_path / "www" / "empty" / "uv").mkdir(parents=True)
    handler = partial(Handler, directory=str(tmp_path / "www"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_pinned_wheel_comes_from_the_configured_index(served: str) -> None:
    assert fetch_wheel(PIN, Indexes(f"http://{served}/simple"), None) == WHEEL


def test_without_a_configured_index_the_default_is_asked(served: str) -> None:
    assert fetch_wheel(PIN, Indexes(), f"http://{served}/simple/") == WHEEL


def test_links_are_relative_to_where_a_redirect_leads(served: str) -> None:
    assert fetch_wheel(PIN, Indexes(f"http://{served}/moved"), None) == WHEEL


def test_credentials_in_the_address_log_in_and_are_never_shown(served: str) -> None:
    assert fetch_wheel(PIN, Indexes(f"http://me:p%40ss@{served}/private"), None) == WHEEL

    with pytest.raises(HarnessError, match="401") as caught:
        fetch_wheel(PIN, Indexes(f"http://me:wr0ng@{served}/private"), None)
    assert "wr0ng" not in str(caught.value)


def test_the_next_index_is_asked_when_one_has_no_such_file(served: str) -> None:
    extra = (f"http://{served}/simple",)

    assert fetch_wheel(PIN, Indexes(f"http://{served}/empty", extra), None) == WHEEL


def test_every_place_that_was_tried_is_named_with_what_it_said(served: str) -> None:
    indexes = Indexes(f"http://{served}/nothing", (f"http://{served}/empty", "not an address"))

    with pytest.raises(HarnessError) as caught:
        fetch_wheel(PIN, indexes, None)

    assert f"{served}/nothing/uv/: HTTP Error 404" in caught.value.found
    assert f"{served}/empty/uv/: no such file" in caught.value.found
    assert "not an address" in caught.value.found


def test_another_content_than_the_pinned_is_refused(served: str, tmp_path: Path) -> None:
    (tmp_path / "www/files/simple" / FILE).write_bytes(b"another wheel")

    with pytest.raises(HarnessError, match="pinned digests") as caught:
        fetch_wheel(PIN, Indexes(f"http://{served}/simple"), None)

    assert hashlib.sha256(b"another wheel").hexdigest() in caught.value.found


def test_a_file_index_serves_as_well(served: str, tmp_path: Path) -> None:
    assert served
    assert fetch_wheel(PIN, Indexes(f"file://{tmp_path}/www/simple"), None) == WHEEL


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_wheel_folder_serves_a_machine_without_any_index(tmp_path: Path, prefix: str) -> None:
    (tmp_path / FILE).write_bytes(WHEEL)
    indexes = Indexes("http://unreachable.test", (), (f"{prefix}{tmp_path}",), no_index=True)

    assert fetch_wheel(PIN, indexes, "http://unreachable.test") == WHEEL


def test_a_find_links_page_is_read_like_an_index_page(served: str) -> None:
    indexes = Indexes(find_links=(f"http://{served}/simple/uv/",), no_index=True)

    assert fetch_wheel(PIN, indexes, None) == WHEEL


def test_no_index_at_all_is_said_with_three_ways_out() -> None:
    with pytest.raises(HarnessError, match="no package index is configured") as caught:
        fetch_wheel(PIN, Indexes(), None)

    for way in ("PIP_INDEX_URL", "uv on PATH", "apt-get install python3-pip"):
        assert way in caught.value.todo


def test_a_certificate_file_that_is_gone_is_named(tmp_path: Path) -> None:
    passed = (("SSL_CERT_FILE", str(tmp_path / "gone.pem")),)

    with pytest.raises(HarnessError, match=r"gone\.pem"):
        fetch_wheel(PIN, Indexes("http://unreachable.test", passed=passed), None)
