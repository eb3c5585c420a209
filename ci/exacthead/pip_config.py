"""Where pip would look for packages on this machine. Standard library only, so needs no pip.

Follows pip's documented order: environment variables over PIP_CONFIG_FILE over the environment's,
the user's and the global pip.conf; ``[global]`` and ``[install]`` sections.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYSTEM = Path("/etc/pip.conf")
_DEFAULT_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
KEYS = ("index-url", "extra-index-url", "find-links", "no-index", "cert")


@dataclass(frozen=True)
class PipConfig:
    """pip's settings that decide where packages come from.

    ``index_url`` is None where nothing names one (then a client's own default counts);
    ``find_links`` are folders or pages; ``cert`` is a CA bundle.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    cert: str | None = None


def read_pip_config(
    environ: Mapping[str, str], prefix: str = sys.prefix, system: Path = SYSTEM
) -> PipConfig:
    """Merge pip's configuration files and variables.

    Args:
        environ: the environment to read ``PIP_*``, ``HOME`` and ``XDG_*`` from.
        prefix: the Python prefix whose ``pip.conf`` counts.
        system: the file that speaks for the whole machine.

    Raises:
        HarnessError: a file cannot be understood; pip would not run with it either.
    """
    found = [_read(path) for path in config_files(environ, prefix, system)]
    # A command's own section outranks [global] over all files, however weak its file is.
    values = {
        key: sections[section][key]
        for section in ("global", "install")
        for sections in found
        for key in sections.get(section, {})
    }
    for key in KEYS:
        variable = "PIP_" + key.upper().replace("-", "_")
        if environ.get(variable):
            values[key] = environ[variable]
    return PipConfig(
        index_url=values.get("index-url"),
        extra_index_urls=tuple(values.get("extra-index-url", "").split()),
        find_links=tuple(values.get("find-links", "").split()),
        no_index=values.get("no-index", "").lower() in {"1", "true", "yes", "on"},
        cert=values.get("cert"),
    )


def config_files(environ: Mapping[str, str], prefix: str, system: Path = SYSTEM) -> Iterator[Path]:
    """The files that pip reads, weakest first; those that do not exist are left out."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    home = Path(environ.get("HOME", "/nonexistent"))
    config_home = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    candidates = [
        *(Path(folder) / "pip" / "pip.conf" for folder in reversed(shared)),
        system,
        home / ".pip" / "pip.conf",
        config_home / "pip" / "pip.conf",
        Path(prefix) / "pip.conf",
        *([Path(named)] if named else []),
    ]
    yield from (path for path in candidates if path.is_file())


def _read(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        words = " ".join(str(error).split())
        raise HarnessError(f"read {path}", words, "mend pip's configuration there") from error
    return {
        section: {key: value for key, value in _items(parser, section) if key in KEYS}
        for section in ("global", "install")
        if parser.has_section(section)
    }


def _items(parser: configparser.RawConfigParser, section: str) -> Iterator[tuple[str, str]]:
    """The settings of a section by the names that pip gives them: it takes either dash."""
    return ((key.replace("_", "-"), value) for key, value in parser.items(section))


def default_index(prefix: str = sys.base_prefix) -> str | None:
    """The index that the pip of this Python would use by itself, or None where there is no pip.

    pip is asked, installed or as the wheel that Python carries for ensurepip: the address of the
    default index is pip's to know, and every distribution may ship its own.
    """
    wheels = [
        *Path(prefix).glob("lib/python3*/ensurepip/_bundled/pip-*.whl"),
        *Path("/usr/share/python-wheels").glob("pip-*.whl"),
    ]
    for path in ["", *map(str, wheels)]:
        done = subprocess.run(
            # An interpreter that was started without a PATH does not know where it is.
            [sys.executable or "/proc/self/exe", "-c", _DEFAULT_INDEX],
            env={"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PATH": os.environ.get("PATH", "")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.strip()
    return None
