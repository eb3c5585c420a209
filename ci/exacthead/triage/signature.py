"""Signatures: whether two faults that were seen in different runs are the same one."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from exacthead.junit import xml_text
from exacthead.units.result import FAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.units.result import Cause, TestResult

_DURATION = r"ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?"
_HOST = r"(?:localhost|\d+\.\d+\.\d+\.\d+)"
_SOURCE = r"py|pyi|pyx|c|cc|cpp|cu|cuh|h|hpp|rs|sh"
# What differs from run to run though the fault is the same. No placeholder holds a digit or a
# slash and every match loses one of them or gets shorter, so that repeating comes to an end.
_VOLATILE = tuple(
    (re.compile(pattern, re.ASCII), placeholder)
    for pattern, placeholder in (
        (r"\b0[xX][0-9a-fA-F]+\b", "<address>"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b\d{8}-\d{6}-[0-9a-f]{12}(?:-dirty)?-[0-9a-f]{4}\b", "<run>"),
        (rf"\b\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z\b|[+-]\d\d:?\d\d\b)?", "<time>"),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (rf"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)? ?(?:{_DURATION})\b", "<time>"),
        (rf"(\.(?:{_SOURCE})):\d+(?::\d+)?", r"\1:<line>"),
        (r"\b([Ll]ines? )\d+(?:-\d+)?", r"\1<line>"),
        (r"\b((?i:pid|tid|process|thread)[ =:#]{1,2})\d+", r"\1<number>"),
        (r"(, started (?:daemon )?)\d+", r"\1<number>"),  # in what a thread prints as
        (r"\b((?i:port)[ =:]{1,2})\d+", r"\1<port>"),
        (rf"(\b{_HOST}|\[[0-9a-f:]+\]):\d+", r"\1:<port>"),
        (rf"(\(['\"]{_HOST}['\"], )\d+", r"\1<port>"),
    )
)
# As XML can hold it.
_ESCAPE = r"\x1b["
_COLOURS = re.compile(r"\\x1b\[[0-9;?]*[A-Za-z]", re.ASCII)
_TEMPORARY = re.compile(
    r"(?<![\w./])(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)((?:/[^\s/'\",:;()<>\[\]]+)+)"
)
_MARKED = re.compile(r"^E {2,}(.*)", re.MULTILINE)
# The names that tempfile makes.
_RANDOM = re.compile(r"tmp[a-z0-9_]{8}|.*[-_.](?=[a-z_]*\d)[a-z0-9_]{8}", re.ASCII)


def normalised(text: str) -> str:
    """``text`` without what differs between two runs of the same fault; normal text stays as it is.

    Addresses, UUIDs, clock times and durations, numbers of lines, processes, threads and ports, run
    ids, temporary folders and colours become placeholders, white space becomes single spaces, and
    what XML cannot hold is written out, so that a text read back from a JUnit file is the same. All
    other numbers stay: they are what an assertion is about.
    """
    # Without colours two parts of another sequence can meet; that is marked, not removed in turn.
    before, text = "", _COLOURS.sub("", xml_text(text)).replace(_ESCAPE, "<escape>")
    while before != text:  # what one rule leaves can be read by another
        before = text
        text = " ".join(text.split())
        for pattern, placeholder in _VOLATILE:
            text = pattern.sub(placeholder, text)
        text = _TEMPORARY.sub(_without_folder, text)
    return text


def message(reason: str, text: str = "") -> str:
    """What a fault says: the lines that pytest marks as the error, else its one-line reason.

    The reason is only the first of those lines, and for many array libraries it is the same for
    every difference.

    Args:
        reason: the one-line reason.
        text: the long form: a traceback, or anything else.
    """
    marked = "\n".join(_MARKED.findall(xml_text(text)))
    return f"{reason}\n{marked}" if marked else reason


def of_messages(messages: Iterable[str]) -> str:
    """A digest of the messages of a fault in whatever order; empty when there are none."""
    normal = sorted(normalised(message) for message in messages)
    return hashlib.sha256("\0".join(normal).encode()).hexdigest() if normal else ""


def of_result(result: TestResult) -> str:
    """The signature of what a test's last attempt showed; the same is read from its JUnit case."""
    causes = result.attempts[-1].causes
    return of_messages(_of_cause(cause) for cause in causes if cause.verdict.kind in FAULTS)


def _of_cause(cause: Cause) -> str:
    where = "" if cause.phase == "call" else f"{cause.phase}: "
    return message(where + cause.verdict.reason, cause.text)


def _without_folder(found: re.Match[str]) -> str:
    """A path in a temporary folder without the folder; its last name stays unless it is random."""
    _, *names = found[1].split("/")
    last = names[-1]
    return "<temp>" if len(names) == 1 or _RANDOM.fullmatch(last) else f"<temp>/{last}"
