"""The clients of bench_capture.py, in a process of their own: they ask an engine as Gym does."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

CALL_S = 600.0
# Gym's names on the wire (posttrain.capture.worker.chat, which imports vLLM).
ADMISSION, COORDS = "ng_capture", "ng_commit_coords"
_HTTP_OK = 200
# What Gym's model server asks for in either case.
_TOKENS = {"logprobs": True, "return_tokens_as_token_ids": True}


@dataclass(frozen=True)
class Turn:
    """What all clients do together.

    Attributes:
        base_url: of the engine.
        capture: whether calls are to be captured.
        clients: that ask at once.
        calls: of each, one after the other.
        new_tokens: of each call.
    """

    base_url: str
    capture: bool
    clients: int
    calls: int
    new_tokens: int


@dataclass(frozen=True)
class Took:
    """What a turn took.

    Attributes:
        seconds: until the last answer was there.
        keys: of what the engine staged.
    """

    seconds: float
    keys: list[str]


def take(turn: Turn) -> Took:
    """Take a turn.

    Raises:
        RuntimeError: an answer is no answer, has another number of tokens, or was not captured.
    """
    with ThreadPoolExecutor(turn.clients) as pool:
        started = time.perf_counter()
        found = list(pool.map(lambda client: _calls(turn, client), range(turn.clients)))
        seconds = time.perf_counter() - started
    return Took(seconds, [key for keys in found for key in keys])


def _calls(turn: Turn, client: int) -> list[str]:
    numbers = range(client * turn.calls, (client + 1) * turn.calls)
    return [key for number in numbers if (key := _call(turn, number))]


def _call(turn: Turn, number: int) -> str:
    """Make one call; the key of what was staged, empty where nothing was to be."""
    body: dict[str, Any] = {
        "model": "policy",
        "messages": [{"role": "user", "content": f"What is {number} + {number}?"}],
        "max_tokens": turn.new_tokens,
        "ignore_eos": True,
        "temperature": 1.0,
        "seed": number,
        **_TOKENS,
    }
    if turn.capture:
        body |= {ADMISSION: _admission(), "stream": False, "top_logprobs": 0}
    else:
        body["return_token_ids"] = True
    status, answer = _post(turn.base_url, body)
    tokens = answer.get("usage", {}).get("completion_tokens")
    if status != _HTTP_OK or tokens != turn.new_tokens:
        raise RuntimeError(f"{status}, {tokens} tokens: {str(answer)[:500]}")
    if not turn.capture:
        return ""
    coords = answer[COORDS]
    if coords["disposition"] != "staged":
        raise RuntimeError(f"not captured: {coords}")
    return str(coords["staging_key"])


def _admission() -> dict[str, Any]:
    name = uuid.uuid4().hex
    return {
        "rollout_id": f"rollout-{name}",
        "model_call_id": f"call-{name}",
        "mode": "text",
    }


def _post(base_url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    parts = urlsplit(base_url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=CALL_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"{parts.path}/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
