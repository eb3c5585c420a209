"""Notify: the verdict line to a webhook, once for each new thing, and never at the run's cost.

The request is made in a thread that nobody waits for longer than the deadline: name resolution, a
connection and an answer that trickles have no common limit of their own. What goes wrong is a
sentence, never an error.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from exacthead.errors import HarnessError
from exacthead.report.document import short
from exacthead.runs.files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.report.model import Report

DEADLINE_S = 3.0
NAME = "notified.json"
_KEPT = 200
_NEW = 10


def check_address(address: str) -> str:
    """The address, if it is one that can be posted to.

    Raises:
        ValueError: it is none; its secret parts are not repeated.
    """
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("no address of a webhook: give http://... or https://...")
    return address


def notify(report: Report, address: str, runs: Path, deadline_s: float = DEADLINE_S) -> str:
    """Post the verdict unless the same was posted there last for that head and runner.

    Args:
        report: of the run.
        address: of the webhook; it gets JSON with ``text``, as Slack and Mattermost read it, and
            the facts beside it.
        runs: the folder of all runs, where what was posted is remembered.
        deadline_s: how long it may take, in seconds.

    Returns:
        What became of it, in words without the address; empty when it was posted.
    """
    key, said = _key(report, address), _said(report)
    known = _read(runs / NAME)
    if known.get(key) == said:
        return "the webhook has this verdict already"
    problem = _post(address, json.dumps(payload(report)).encode(), deadline_s)
    if problem:
        return f"the webhook was not told: {problem}"
    known.pop(key, None)
    try:
        write_json(runs / NAME, dict([*known.items(), (key, said)][-_KEPT:]))
    except HarnessError as error:
        return f"the webhook was told, which could not be noted: {error.found}"
    return ""


def payload(report: Report) -> dict[str, object]:
    """What is posted."""
    head = short(report)
    return {
        "text": f"Exacthead: {report.verdict}, at head {head} on {report.runner}",
        "run": report.run,
        "state": report.state,
        "verdict": report.verdict,
        "head": report.head.commit,
        "runner": report.runner,
        "new_failures": [
            {"name": each.name, "class": str(each.failure_class), "cause": each.cause[:300]}
            for each in report.new[:_NEW]
        ],
    }


def _key(report: Report, address: str) -> str:
    items = ",".join(sorted(item.id for item in report.items))
    said = "\0".join((address, report.head.commit, str(report.head.dirty), report.runner, items))
    return hashlib.sha256(said.encode()).hexdigest()


def _said(report: Report) -> str:
    """What makes a verdict another one; how many passed does not."""
    names = [f"{each.name}\0{each.group}" for each in report.new]
    facts = (report.state, *report.reasons, *sorted(names))
    return hashlib.sha256("\0".join(facts).encode(errors="surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, str]:
    try:
        return read_json(path, dict, "it is made again")
    except HarnessError:
        return {}  # then a verdict is posted once more, which is the lesser evil


def _post(address: str, body: bytes, deadline_s: float) -> str:
    """Post it; what went wrong in words, empty when nothing did."""
    outcome = [f"no answer in {deadline_s:g} s"]

    def post() -> None:
        request = urllib.request.Request(  # noqa: S310 - its scheme was checked
            address, body, {"Content-Type": "application/json", "User-Agent": "exacthead"}
        )
        try:
            with urllib.request.urlopen(request, timeout=deadline_s) as answer:  # noqa: S310
                answer.read(1)
            outcome[0] = ""
        except (OSError, ValueError, http.client.HTTPException) as error:
            code = getattr(error, "code", None)
            outcome[0] = f"HTTP {code}" if code else type(error).__name__

    thread = threading.Thread(target=post, name="notify", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return outcome[0]
