"""Fetch one pinned wheel from the configured index and check its digest. Standard library only."""

from __future__ import annotations

import hashlib
import os
import ssl
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.pip_config import PipConfig


class FetchError(Exception):
    """The pinned wheel cannot be had; the message says what was tried."""

    def __init__(self, asked: str, found: str, todo: str) -> None:
        super().__init__(asked, found, todo)


class _Links(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.urls += [urllib.parse.urljoin(self.base, v) for k, v in attrs if k == "href" and v]


def indexes(
    config: PipConfig, environ: Mapping[str, str], default: str | None
) -> tuple[str, ...]:
    """Simple-index addresses to ask, in order: uv's and pip's own variables, files, pip's default."""
    named = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or config.index_url
    first = named or (None if config.no_index else default)
    return tuple(url for url in (first, *config.extra_index_urls) if url)


def fetch_wheel(
    project: str,
    hashes: frozenset[str],
    ending: str,
    sources: tuple[str, ...],
    cert: str | None = None,
) -> Path:
    """Download the wheel of ``project`` whose name ends with ``ending`` and whose SHA-256 is pinned.

    Args:
        project: distribution and version, as the wheel's name begins (``uv-0.13.9-``).
        hashes: the accepted SHA-256 digests, hexadecimal.
        ending: the end of the wheel's name, its platform.
        sources: simple-index addresses (``https:`` or ``file:``).
        cert: a CA bundle to trust besides the system's.

    Raises:
        FetchError: no source has it, or what it has is not what the pin says.
    """
    if not sources:
        raise FetchError(
            f"{project}*{ending}",
            "no package index is configured, and this Python has no pip to ask for its default",
            "set PIP_INDEX_URL to your simple index, or put uv on PATH, or apt-get install python3-pip",
        )
    tried = []
    context = ssl.create_default_context()
    if cert:
        context.load_verify_locations(cafile=cert)
    name = project.split("-", 1)[0]
    for source in sources:
        page = f"{source.rstrip('/')}/{name}/"
        try:
            links = _Links(page)
            links.feed(_get(page, context).decode())
            for url in links.urls:
                file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
                if file.startswith(project) and file.endswith(ending):
                    return _checked(_get(url, context), hashes, file)
            tried.append(f"{_shown(page)}: no such file")
        except (urllib.error.URLError, OSError) as error:
            tried.append(f"{_shown(page)}: {error}")
    raise FetchError(
        f"{project}*{ending}", "; ".join(tried), "check the index and the network, or install uv"
    )


def _get(url: str, context: ssl.SSLContext) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "text/html"})  # noqa: S310
    if urllib.parse.urlsplit(url).scheme == "file" and url.endswith("/"):
        request = urllib.request.Request(url + "index.html")  # noqa: S310
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310
        data = answer.read()
    if not isinstance(data, bytes):
        raise FetchError(url, "not bytes", "check the index")
    return data


def _checked(data: bytes, hashes: frozenset[str], file: str) -> Path:
    found = hashlib.sha256(data).hexdigest()
    if found not in hashes:
        raise FetchError(
            f"{file} with one of {len(hashes)} pinned digests",
            f"sha256:{found}",
            "do not use this index, or renew the pin with `nox -s lock`",
        )
    descriptor, path = tempfile.mkstemp(suffix=".whl")
    with os.fdopen(descriptor, "wb") as target:
        target.write(data)
    return Path(path)


def _shown(url: str) -> str:
    """The address without credentials."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.hostname or ""))


if __name__ == "__main__":
    sys.exit("a library of bootstrap.py")
