"""Mask: secrets in all that is written become ``***``, by their values and by their forms."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exacthead.tables import Secrets

MASK = b"***"
# Shorter ones stand everywhere by chance.
SHORTEST = 6
# No secret of a known form is longer; so much of a line that goes on is held back.
_LONGEST = 8192
# What a form looks at before a secret.
_CONTEXT = 64
_CHUNK = 1 << 20
_SAMPLE = 1 << 13
_KEY_LINES = 400
_BEGIN, _END = b"PRIVATE KEY-----", b"-----END "
# Between the two: a line of it, or a part of one behind what a log or a traceback puts before it.
_KEY_LINE = re.compile(rb"[ \t]*+[A-Za-z0-9+/]++={0,2}+([ \t]*+[\r\n]*+)")
_KEY_PART = re.compile(rb"[A-Za-z0-9+/]{16,}+={0,2}+|[A-Za-z0-9+/]++={1,2}+(?=\s)")
_KEY_ON_A_LINE = (
    rb"(?:[A-Za-z0-9+/=]|\x20(?=[A-Za-z0-9+/=]{16})"
    rb"|\\{1,8}+[nr](?:E?\x20{1,16}+(?:[-+>|]\x20)?+)?+)"
)
_NO_KEY = re.compile(rb'[<>"]')

# The text that a form begins with, which is found quickly, and what follows; of a group, that is
# the secret. The forms are those that their issuers document.
_FORMS: tuple[tuple[bytes, bytes], ...] = (
    *((start, rb"[A-Za-z0-9]{20,255}+") for start in (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_")),
    (b"github_pat_", rb"[A-Za-z0-9_]{20,255}+"),
    (b"glpat-", rb"[A-Za-z0-9_-]{20,255}+"),
    (b"hf_", rb"[A-Za-z0-9]{20,255}+"),
    (b"sk-", rb"[A-Za-z0-9_-]{20,255}+"),
    (b"nvapi-", rb"[A-Za-z0-9_-]{20,255}+"),
    (b"pypi-", rb"[A-Za-z0-9_-]{50,512}+"),
    (b"xox", rb"[abeoprs]-[A-Za-z0-9-]{10,255}+"),
    (b"AKIA", rb"[A-Z0-9]{16}+(?![A-Za-z0-9])"),
    (b"ASIA", rb"[A-Z0-9]{16}+(?![A-Za-z0-9])"),
    (b"eyJ", rb"[\w-]{8,2048}+\.eyJ[\w-]{8,2048}+\.[\w-]{8,1024}+"),
    (b"earer ", rb"([\w.~+/-]{16,1024}+={0,2}+)"),
    (b"://", rb"([^\s/@:'\"<>]{1,256}+:[^\s/@'\"<>]{1,256}+)@"),
    # A key on one line, as JSON, environments and pytest's marks of lines have it; the escape of a
    # quote is not of it.
    (_BEGIN, rb"\x20?+(" + _KEY_ON_A_LINE + rb"{16,7000}+)"),
)
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True)
class Form:
    """What a secret looks like; with a ``start``, only where no other word goes on into it."""

    start: bytes
    pattern: re.Pattern[bytes]

    def spans(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Where such a secret stands."""
        if self.start not in block:
            return
        part = min(self.pattern.groups, 1)
        for match in self.pattern.finditer(block):
            alone = part or not self.start or not match.start()
            if alone or block[match.start() - 1] not in _WORD:
                yield match.span(part)


@dataclass(frozen=True)
class Masker:
    """What is a secret.

    Attributes:
        values: registered ones in all their spellings, the longest first.
        forms: what others look like.
        unfit: the names of registered variables whose values are too short to be masked.
    """

    values: tuple[bytes, ...] = ()
    forms: tuple[Form, ...] = ()
    unfit: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, secrets: Secrets, environment: Mapping[str, str], values: Iterable[str] = ()
    ) -> Masker:
        """That of a run.

        Args:
            secrets: what the repository declares.
            environment: where the declared variables are looked up; one that is not set has none.
            values: further ones that the run was given.
        """
        named = {name: environment[name] for name in secrets.names if environment.get(name)}
        every = [*named.values(), *(value for value in values if value)]
        # Written line by line, and looked for so.
        lines = {line.strip() for value in every for line in value.splitlines()}
        spelt = {each for line in lines if len(line) >= SHORTEST for each in _spellings(line)}
        forms = [Form(start, re.compile(re.escape(start) + rest)) for start, rest in _FORMS]
        forms += [Form(b"", re.compile(pattern.encode())) for pattern in secrets.patterns]
        return cls(
            values=tuple(sorted(spelt, key=lambda each: (-len(each), each))),
            forms=tuple(forms),
            unfit=tuple(name for name, value in named.items() if len(value.strip()) < SHORTEST),
        )

    def text(self, text: str) -> str:
        """A text without secrets."""
        data = text.encode("utf-8", "surrogatepass")
        masked = b"".join(self._through([data]))
        return text if masked == data else masked.decode("utf-8", "surrogatepass")

    def holds_value(self, text: str) -> bool:
        """Whether a registered value stands in a text."""
        data = text.encode("utf-8", "surrogatepass")
        return any(value in data for value in self.values)

    def stream(self) -> Stream:
        """For what comes piece by piece."""
        return Stream(self)

    def file(self, path: Path) -> bool:
        """Mask a file in place, whatever its size; returns whether there was anything.

        Raises:
            OSError: it cannot be read, or not be written to; it is as it was then.
        """
        with path.open("rb") as source:
            if b"\0" in source.read(_SAMPLE):
                return False  # no text; a changed byte would break it
            source.seek(0)
            if not any(self._suspects(block) for block in _overlapping(source)):
                return False
            source.seek(0)
            status = path.stat()
            handle, name = tempfile.mkstemp(prefix=".masked.", dir=path.parent)
            temporary = Path(name)
            try:
                with os.fdopen(handle, "wb") as target:
                    for block in self._through(_blocks(source)):
                        target.write(block)
                temporary.chmod(status.st_mode & 0o7777)
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        return True

    def folder(self, folder: Path, without: Path | None = None) -> list[str]:
        """Mask every text file in a folder, but for one that lies in it.

        Returns:
            What could not be masked, a sentence each.
        """
        files = (
            path
            for path in sorted(folder.rglob("*"))
            if not (path.is_symlink() or (without and path.is_relative_to(without)))
        )
        return [problem for path in files for problem in self.tried(path)]

    def tried(self, path: Path) -> list[str]:
        """The same of one file, if there is one."""
        try:
            if path.is_file():
                self.file(path)
        except OSError as error:
            return [f"secrets in {path.name} could not be masked: {error.strerror or error}"]
        return []

    def _through(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        stream = self.stream()
        for block in blocks:
            yield stream.feed(block)
        yield stream.finish()

    def _suspects(self, block: bytes) -> bool:
        return _BEGIN in block or bool(self.spans(block))

    def spans(self, block: bytes) -> list[tuple[int, int]]:
        """Where secrets stand in a block, in order; they do not overlap."""
        found = [span for form in self.forms for span in form.spans(block)]
        for value in self.values:
            at = block.find(value)
            while at >= 0:
                found.append((at, at + len(value)))
                at = block.find(value, at + 1)
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


class Stream:
    """Masks what comes piece by piece; an unfinished line is held back, so that no border helps.

    Args:
        masker: what is a secret.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = b""
        self._before = b""  # what was given out last, unmasked, for what a form looks back at
        self._key_lines = 0
        longest = len(masker.values[0]) if masker.values else 0
        self._most_held = max(_LONGEST, longest)

    def feed(self, block: bytes) -> bytes:
        """Take a piece; gives what is ready."""
        data = self._held + block
        ready = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - ready > self._most_held:
            ready = len(data) - self._most_held
        return self._give(data, ready)

    def finish(self) -> bytes:
        """The rest, after the last piece."""
        return self._give(self._held, len(self._held))

    def _give(self, data: bytes, ready: int) -> bytes:
        """Mask the first ``ready`` bytes, fewer when a secret lies across their end."""
        before = len(self._before)
        whole = self._before + data
        spans = [(a, b) for a, b in self._masker.spans(whole) if b > before]
        for start, end in spans:
            if start < before + ready < end:
                ready = max(start - before, 0)
        border = before + ready
        parts, at = [], before
        for start, end in spans:
            if end > border:
                break
            parts += [whole[at : max(start, at)], MASK]
            at = end
        parts.append(whole[at:border])
        self._held = data[ready:]
        self._before = whole[max(0, border - _CONTEXT) : border]
        return self._without_keys(b"".join(parts))

    def _without_keys(self, text: bytes) -> bytes:
        """The lines of a private key, between those that say that it begins and ends."""
        if not self._key_lines and _BEGIN not in text:
            return text
        lines = text.splitlines(keepends=True)
        for index, line in enumerate(lines):
            if _END in line:
                self._key_lines = 0
            elif self._key_lines:
                # Where its end is missing, what follows is no key, and markup stays what it is.
                self._key_lines = 0 if _NO_KEY.search(line) else self._key_lines - 1
                whole = _KEY_LINE.fullmatch(line)
                lines[index] = MASK + whole[1] if whole else _KEY_PART.sub(MASK, line)
            elif line.rstrip().endswith(_BEGIN):
                self._key_lines = _KEY_LINES
        return b"".join(lines)


def masked(value: Any, masker: Masker) -> Any:
    """Data of dictionaries, lists and texts with every text masked; keys too."""
    if isinstance(value, str):
        return masker.text(value)
    if isinstance(value, dict):
        return {masked(key, masker): masked(each, masker) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(masked(each, masker) for each in value)
    return value


def _spellings(value: str) -> Iterator[bytes]:
    """A value as it is, and as JSON, XML, an address and base64 hold it."""
    raw = value.encode("utf-8", "surrogatepass")
    yield raw
    yield json.dumps(value)[1:-1].encode()
    yield json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    for quotes in ({}, {'"': "&quot;"}):  # in a text, and in an attribute
        yield escape(value, quotes).encode("utf-8", "surrogatepass")
    yield quote(raw, safe="").encode()
    yield base64.b64encode(raw)


def _blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(_CHUNK):
        yield block


def _overlapping(source: IO[bytes]) -> Iterator[bytes]:
    """Blocks that share their borders, so that no value lies across one."""
    before = b""
    for block in _blocks(source):
        yield before + block
        before = (before + block)[-_LONGEST:]
