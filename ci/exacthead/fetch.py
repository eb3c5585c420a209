"""Fetch one pinned wheel from where pip and uv would, by its digest. Standard library only."""

from __future__ import annotations

import base64
import hashlib
import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.workers.index import Indexes

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Pin:
    """One wheel: its project and version, the end of its name, the SHA-256 digests it may have."""

    project: str
    version: str
    ending: str
    hashes: frozenset[str]

    def __str__(self) -> str:
        return f"{self.project}-{self.version}-*{self.ending}"

    def names(self, file: str) -> bool:
        """Whether a file's name says that it is this wheel."""
        return file.startswith(f"{self.project}-{self.version}-") and file.endswith(self.ending)


def fetch_wheel(pin: Pin, indexes: Indexes, default_index: str | None) -> bytes:
    """The content of the pinned wheel, from the first place that has a file of its name.

    Args:
        pin: the wheel.
        indexes: where this machine takes packages from; find-links places are asked first.
        default_index: the index to ask where none is configured.

    Raises:
        HarnessError: no place has it (each is named), or what it has is not what the pin says.
    """
    index = None if indexes.no_index else indexes.default_index or default_index
    extra = () if indexes.no_index else indexes.extra_indexes
    folders = indexes.folders()
    pages = [place for place in indexes.find_links if "://" in place and not _is_file(place)]
    pages += [f"{url.rstrip('/')}/{pin.project}/" for url in (index, *extra) if url]
    tried = []
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if pin.names(path.name):
                return _checked(path.read_bytes(), pin, path.name)
        tried.append(f"{folder}: no such file")
    web = _Web(dict(indexes.passed).get("SSL_CERT_FILE"))
    for page in pages:
        try:
            for url in web.links(page):
                file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
                if pin.names(file):
                    return _checked(web.get(url)[0], pin, file)
            tried.append(f"{_shown(page)}: no such file")
        except (OSError, http.client.HTTPException, ValueError) as error:
            tried.append(f"{_shown(page)}: {error}")
    if not tried:
        raise HarnessError(
            str(pin),
            "no package index is configured, and this Python has no pip to ask for its default",
            "set PIP_INDEX_URL to a simple index, put uv on PATH, or apt-get install python3-pip",
        )
    raise HarnessError(
        str(pin),
        "\n    " + "\n    ".join(tried),
        "check the index and the network, or put uv on PATH",
    )


class _Web:
    """Getting pages and files; ``cert`` is a CA bundle to trust besides the system's."""

    def __init__(self, cert: str | None) -> None:
        self._context = ssl.create_default_context()
        if cert:
            try:
                self._context.load_verify_locations(cafile=cert)
            except OSError as error:
                raise HarnessError(
                    f"trust the certificates in {cert}", str(error), "name a CA bundle that exists"
                ) from error

    def links(self, page: str) -> Iterator[str]:
        """Where the links of a page lead, absolute; relative to where a redirect has led."""
        content, address = self.get(page)
        links = _Links()
        links.feed(content.decode(errors="replace"))
        for target in links.targets:
            url = urllib.parse.urljoin(address, target)
            # Whoever may read an index's page may read its files.
            if urllib.parse.urlsplit(url).hostname == urllib.parse.urlsplit(page).hostname:
                url = _with_login(url, page)
            yield url

    def get(self, url: str) -> tuple[bytes, str]:
        """The content behind ``url`` and its last address."""
        if _is_file(url) and url.endswith("/"):
            url += "index.html"
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(  # noqa: S310 - file: indexes are meant to work
            parts._replace(netloc=host).geturl(), headers={"Accept": "text/html, */*;q=0.1"}
        )
        if parts.username is not None:
            login = f"{urllib.parse.unquote(parts.username)}:"
            login += urllib.parse.unquote(parts.password or "")
            token = base64.b64encode(login.encode()).decode()
            # A redirect to another host must not carry it there.
            request.add_unredirected_header("Authorization", f"Basic {token}")
        with urllib.request.urlopen(  # noqa: S310 - as above
            request, timeout=_TIMEOUT_S, context=self._context
        ) as answer:
            content: bytes = answer.read()
            return content, answer.geturl()


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.targets += [value for name, value in attrs if name == "href" and value]


def _checked(data: bytes, pin: Pin, file: str) -> bytes:
    found = hashlib.sha256(data).hexdigest()
    if found not in pin.hashes:
        raise HarnessError(
            f"{file} with one of {len(pin.hashes)} pinned digests",
            f"sha256:{found}",
            "do not trust that index; if the pin is wrong, mend ci/locks/uv.txt",
        )
    return data


def _is_file(url: str) -> bool:
    return urllib.parse.urlsplit(url).scheme == "file"


def _with_login(url: str, page: str) -> str:
    login, at, _ = urllib.parse.urlsplit(page).netloc.rpartition("@")
    parts = urllib.parse.urlsplit(url)
    return url if "@" in parts.netloc else parts._replace(netloc=login + at + parts.netloc).geturl()


def _shown(url: str) -> str:
    """The address without credentials."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
