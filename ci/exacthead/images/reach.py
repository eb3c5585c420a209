"""Reach: which engine answers, asked so that no connection is left open where none does."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker import APIClient

_DOCKER = "unix:///var/run/docker.sock"
_PODMAN = "unix:///run/podman/podman.sock"
_UNIX = "unix://"
# Seconds; a load of a large layer says nothing for minutes.
_ANSWER_S = 1800
_PING_S = 10


def reach(environ: Mapping[str, str]) -> tuple[str, APIClient, dict[str, Any]]:
    """The engine that ``environ`` names, or the first one in a usual place that answers.

    Returns:
        Its address, a client that speaks its version of the API, and what it says of itself.

    Raises:
        HarnessError: none answers; every place that was tried is named.
    """
    # Slow to import, and most commands need no engine.
    import docker

    tried = []
    for host in _hosts(environ):
        try:
            said = _version(host)
        except (docker.errors.DockerException, OSError) as error:
            tried.append(f"{host}: {_first_line(error)}")
            continue
        client = docker.APIClient(host, version=str(said["ApiVersion"]), timeout=_ANSWER_S)
        return host, client, said
    raise HarnessError(
        "a container engine",
        "none answers\n    " + "\n    ".join(tried),
        "start one (apt-get install docker.io; dockerd), or name one in DOCKER_HOST",
    )


def _version(host: str) -> dict[str, Any]:
    """What the engine at an address says of itself."""
    import docker

    if host.startswith(_UNIX):
        # The SDK leaves the socket of a connection that fails to the garbage collector.
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(_PING_S)
            tried.connect(host.removeprefix(_UNIX))
    # Asked to find out the version by itself, it does so where nobody can close it on failure.
    known = docker.constants.DEFAULT_DOCKER_API_VERSION
    with closing(docker.APIClient(host, version=known, timeout=_PING_S)) as client:
        said: dict[str, Any] = client.version(api_version=False)
    if "ApiVersion" not in said:
        raise docker.errors.DockerException(f"it is no engine: it says {str(said)[:200]}")
    return said


def _hosts(environ: Mapping[str, str]) -> list[str]:
    """Where engines are looked for: the one that is named, and else the usual places."""
    if environ.get("DOCKER_HOST"):
        return [environ["DOCKER_HOST"]]
    rootless = environ.get("XDG_RUNTIME_DIR")
    places = [f"unix://{rootless}/docker.sock", f"unix://{rootless}/podman/podman.sock"]
    return [_DOCKER, *(places if rootless else ()), _PODMAN]


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
