"""The environment that builders, probes and legs start from: named variables, all else dropped.

Dropping by name would never be complete: a user-site folder, an inherited PYTHONPATH or a
PIP_TARGET puts foreign code into a worker, CFLAGS change what a source distribution turns into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = frozenset(
    {
        # who and where
        *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME"),
        # text
        *("LANG", "LANGUAGE"),
        # the way out: proxies, certificates, credentials by file
        *("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
        *("all_proxy", "https_proxy", "http_proxy", "no_proxy"),
        *("CURL_CA_BUNDLE", "NETRC", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        # where uv keeps what it has fetched; never what it fetches
        "UV_CACHE_DIR",
        # where a Debian is fetched from, for images; never what is in it
        "EXACTHEAD_DEBIAN_MIRROR",
        # accelerators and the libraries that their drivers need
        *("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"),
        *("NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES"),
        # which container engine is meant
        "DOCKER_HOST",
    }
)
_KEPT_PREFIXES = ("LC_",)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of ``environment`` that says where we are and never what is installed or imported.

    No PYTHON*, PIP_*, VIRTUAL_ENV, CONDA_*, and of UV_* only the cache folder. PYTHONNOUSERSITE=1
    is added: HOME stays, and with it the user-site folder that it has.

    Args:
        environment: for example ``os.environ``; it is not changed.

    Returns:
        A new dictionary; the caller adds what its process needs.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    return kept | {"PYTHONNOUSERSITE": "1"}
