"""Ask a worker without importing anything of capture."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CALL_S = 60


def post(base_url: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and JSON of a chat completion."""
    parts = urlsplit(base_url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=CALL_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"{parts.path}/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def answers(base_url: str, bodies: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Status and raw answer of each request, without its id and its time."""
    found: list[list[Any]] = []
    for body in bodies:
        code, answer = post(base_url, {**body, "model": "policy"})
        for name in ("id", "created"):
            answer.pop(name, None)
        # As it was written: the order of the keys counts too.
        found.append([code, json.dumps(answer)])
    return found
