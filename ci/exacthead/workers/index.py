"""Where distributions come from on this machine, told to uv outright and to nobody else.

What pip, uv's files and uv's variables are configured with (index, extra indexes, find-links,
certificates) is read once; every other ``PIP_*``, ``UV_*`` and ``PYTHON*`` variable is dropped, so
that two shells of one machine build the same worker.

What of this is in a key: a lock pins every file by hash, so an index or a folder that serves
those very files cannot change a worker's content, and a mirror changes no key. Only a distribution
that is *swapped* for another build of its version does (``exacthead.workers.swap``); each swap is
in the key with the digest of its file. What was configured goes into the provenance
(:meth:`Indexes.described`), without credentials.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.pip_config import read_pip_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Of UV_* these say how uv reaches and keeps things, never what it installs.
_KEPT = frozenset(
    {
        *("UV_CACHE_DIR", "UV_OFFLINE", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES"),
        *("UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_BUILDS", "UV_CONCURRENT_INSTALLS"),
        *("UV_PYTHON_INSTALL_DIR", "UV_PYTHON_DOWNLOADS", "UV_PYTHON_INSTALL_MIRROR"),
        *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER"),
    }
)


@dataclass(frozen=True)
class Indexes:
    """Where distributions come from, and the environment that uv is called with.

    Attributes:
        default_index: address of the index; None for uv's own.
        extra_indexes: addresses of further indexes; the best match over all counts, as with pip.
        find_links: folders or pages with distributions.
        no_index: only ``find_links`` count.
        passed: the caller's variables that uv may see. Addresses may hold credentials, so none
            of these is in the ``repr``.
    """

    default_index: str | None = field(default=None, repr=False)
    extra_indexes: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    passed: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def uv_environment(self) -> dict[str, str]:
        """The whole environment for a call of uv; indexes are in it since they may hold secrets."""
        environment = {**dict(self.passed), "UV_NO_CONFIG": "1"}
        if self.default_index:
            environment["UV_DEFAULT_INDEX"] = self.default_index
        if self.extra_indexes:
            environment["UV_INDEX"] = " ".join(self.extra_indexes)
        return environment

    def uv_arguments(self) -> tuple[str, ...]:
        """Arguments for ``uv pip sync``, which go with :meth:`uv_environment`.

        ``unsafe-best-match`` is pip's rule for several indexes; it is safe here, since a lock
        names the hash of every file.
        """
        arguments = ["--index-strategy", "unsafe-best-match"]
        if self.no_index:
            arguments.append("--no-index")
        for place in self.find_links:
            arguments += ["--find-links", place]
        return tuple(arguments)

    def locking_environment(self) -> dict[str, str]:
        """The whole environment for ``uv pip compile``: the default index and nothing beside it.

        A lock that needed an extra index, a wheel folder or a ``file://`` index of this machine
        would resolve nowhere else.
        """
        environment = {**dict(self.passed), "UV_NO_CONFIG": "1"}
        if self.default_index and urlsplit(self.default_index).scheme in {"http", "https"}:
            environment["UV_DEFAULT_INDEX"] = self.default_index
        return environment

    def folders(self) -> tuple[Path, ...]:
        """The find-links places that are folders of this machine, in order."""
        paths = (_local_path(place) for place in self.find_links)
        return tuple(path for path in paths if path is not None and path.is_dir())

    def described(self) -> tuple[str, ...]:
        """The sources in words for the provenance: no credentials, no folders of this machine."""
        if not (self.default_index or self.extra_indexes or self.find_links or self.no_index):
            return ("default index",)
        words = ["no index"] if self.no_index else []
        if not self.no_index:
            index = self.default_index
            words.append(_redacted("index", index) if index else "default index")
            words += [_redacted("extra index", url) for url in self.extra_indexes]
        return (*words, *(_redacted("find-links", place) for place in self.find_links))


def read_indexes(environ: Mapping[str, str] = os.environ) -> Indexes:
    """Read what pip and uv are configured with.

    Strongest first, per setting: ``UV_*`` variables, ``uv.toml`` of the user, of the system,
    ``PIP_*`` variables, pip's files. find-links folders that do not exist are left out, as pip
    leaves them out.

    Raises:
        HarnessError: a configuration file cannot be read.
    """
    pip = read_pip_config(environ)
    uv = _uv_settings(environ)
    index = uv.get("index-url", pip.index_url)
    extra = uv.get("extra-index-url", pip.extra_index_urls)
    links = uv.get("find-links", pip.find_links)
    passed = clean_environment(environ)
    passed |= {name: value for name, value in environ.items() if name in _KEPT}
    if pip.cert and "SSL_CERT_FILE" not in passed:
        passed["SSL_CERT_FILE"] = pip.cert
    return Indexes(
        default_index=index,
        extra_indexes=tuple(extra),
        find_links=tuple(place for place in map(_expanded, links) if _usable(place)),
        no_index=uv.get("no-index", pip.no_index),
        passed=tuple(sorted(passed.items())),
    )


def _uv_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of uv itself that name sources, under the names that pip gives them."""
    import tomllib  # came with Python 3.11; an older one gets as far as being told so

    settings: dict[str, Any] = {}
    for path in _uv_files(environ):
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise HarnessError(
                f"read {path}", str(error), "mend uv's configuration there"
            ) from error
        settings |= _uv_file_settings(data)
    for name, variables in {
        "index-url": ("UV_INDEX_URL", "UV_DEFAULT_INDEX"),
        "extra-index-url": ("UV_EXTRA_INDEX_URL", "UV_INDEX"),
    }.items():
        for variable in variables:
            if environ.get(variable):
                urls = [_without_name(url) for url in environ[variable].split()]
                settings[name] = urls[0] if name == "index-url" else urls
    if environ.get("UV_FIND_LINKS"):
        settings["find-links"] = environ["UV_FIND_LINKS"].split(",")
    if environ.get("UV_NO_INDEX"):
        settings["no-index"] = environ["UV_NO_INDEX"].lower() in {"1", "true", "yes", "on"}
    return settings


def _uv_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The files that uv reads outside of projects, weakest first."""
    if environ.get("UV_NO_CONFIG"):
        return
    if environ.get("UV_CONFIG_FILE"):
        candidates = [Path(environ["UV_CONFIG_FILE"])]
    else:
        home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/")) / ".config")
        shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
        candidates = [Path("/etc/uv/uv.toml")]
        candidates += [Path(folder) / "uv" / "uv.toml" for folder in reversed(shared)]
        candidates += [home / "uv" / "uv.toml"]
    yield from (path for path in candidates if path.is_file())


def _uv_file_settings(data: dict[str, Any]) -> dict[str, Any]:
    flat = {**data, **data.get("pip", {})}  # for `uv pip`, its own table wins
    names = ("index-url", "extra-index-url", "find-links", "no-index")
    settings = {name: flat[name] for name in names if name in flat}
    indexes = flat.get("index", [])
    defaults = [index["url"] for index in indexes if index.get("default")]
    others = [index["url"] for index in indexes if not index.get("default")]
    if defaults:
        settings["index-url"] = defaults[0]
    if others:
        settings["extra-index-url"] = others
    return settings


def _without_name(url: str) -> str:
    """An index's address; uv allows ``name=address`` for it."""
    name, sign, rest = url.partition("=")
    return rest if sign and "/" not in name else url


def _expanded(place: str) -> str:
    return str(Path(place).expanduser()) if place.startswith("~") else place


def _local_path(place: str) -> Path | None:
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return Path(place) if not parts.scheme else None


def _usable(place: str) -> bool:
    path = _local_path(place)
    return path is None or path.exists()


def _redacted(kind: str, place: str) -> str:
    parts = urlsplit(place)
    if parts.scheme in {"http", "https"}:
        return f"{kind} at {parts.hostname}"
    return f"{kind} of this machine"
