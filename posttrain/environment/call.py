"""One call to a Gym server: a JSON object goes out, one comes back, within a deadline."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import aiohttp

from posttrain.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

SEE_LOG = "look into the logs of the engines and of Gym's servers"
_HTTP_OK = 200
_EXCERPT_CHARS = 1500


class LateError(WorkerError):
    """A call that took longer than its deadline."""

    def blaming(self, silent: Sequence[str]) -> WorkerError:
        """The same with the names of those that do not answer anything."""
        either = f"; nor does {' or '.join(silent)} answer a health check" if silent else ""
        return WorkerError(self.asked, self.found + either, self.todo)


def session() -> aiohttp.ClientSession:
    """A client whose only limit is each call's own deadline; aiohttp's would hide behind it."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout())


async def post(
    client: aiohttp.ClientSession, url: str, body: dict[str, Any], *, asked: str, deadline_s: float
) -> dict[str, Any]:
    """POST ``body`` and return the answer.

    Gym's servers send again, for ever, what a dead engine did not answer; only the deadline here
    ends that. When it passes, the connection closes and Gym cancels the work on its side.

    Args:
        client: of :func:`session`.
        url: the route.
        body: what is sent.
        asked: what is wanted, for errors.
        deadline_s: seconds.

    Raises:
        LateError: the deadline passed.
        WorkerError: no answer, another status than 200, or something else than a JSON object.
    """
    try:
        async with asyncio.timeout(deadline_s), client.post(url, json=body) as reply:
            status, content = reply.status, await reply.read()
    except TimeoutError:
        raise LateError(asked, f"no answer from {url} within {deadline_s:g} s", SEE_LOG) from None
    except aiohttp.ClientError as error:
        found = f"no answer from {url}: {type(error).__name__}: {error}"
        raise WorkerError(asked, found, SEE_LOG) from error
    said = f"{url} answered {status}: {_excerpt(content)}"
    if status != _HTTP_OK:
        raise WorkerError(asked, said, "mend the row or the server that the answer names")
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise WorkerError(f"{asked} as JSON", f"{said}; {error}", SEE_LOG) from error
    if not isinstance(answer, dict):
        raise WorkerError(f"{asked} as a JSON object", said, SEE_LOG)
    return answer


def _excerpt(content: bytes) -> str:
    # Gym quotes the answer of an inner server inside its own, with ever more backslashes.
    text = re.sub(r"\\+(?=[\"'n])", "", " ".join(content.decode(errors="replace").split()))
    return text if len(text) <= _EXCERPT_CHARS else f"{text[:_EXCERPT_CHARS]} ..."
