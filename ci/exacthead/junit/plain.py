"""Any text of a JUnit file as UTF-8 without namespaces, which is all that the scanner reads."""

from __future__ import annotations

import codecs
import re
import tempfile
from typing import IO, TYPE_CHECKING
from xml.parsers.expat import ExpatError, ParserCreate

from exacthead.junit.text import content, start_tag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.parsers.expat import XMLParserType

FINAL = True  # for a parser that gets no more
_CHUNK = 1 << 18
_BOMS = (
    # The longer ones first: UTF-32's starts like UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
    ("<?".encode("utf-16-le"), "utf-16-le"),
    ("<?".encode("utf-16-be"), "utf-16-be"),
)
_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")


class UnfitError(ValueError):
    """XML that is no JUnit, or that asks for what is not given to a file of results."""


def strict_parser() -> XMLParserType:
    """A parser of UTF-8 that puts ``}`` between a namespace and a name, and expands no entity."""
    parser = ParserCreate("utf-8", "}")

    def doctype(_name: str, system: str | None, _public: str | None, subset: bool) -> None:
        if system or subset:
            # Entities can grow without end or read other files, and a JUnit file has none.
            raise UnfitError("it has a document type declaration, which is not followed")

    parser.StartDoctypeDeclHandler = doctype
    return parser


def chunks(source: IO[bytes]) -> Iterator[bytes]:
    """Everything in ``source`` from its start, piece by piece."""
    position = 0
    # Others read other places of it meanwhile.
    while source.seek(position) == position and (chunk := source.read(_CHUNK)):
        position += len(chunk)
        yield chunk


def encoding(source: IO[bytes]) -> str:
    """The encoding by first bytes and declaration; ``utf-8`` when they say nothing that holds."""
    source.seek(0)
    head = source.read(400)
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    declared = _DECLARED.match(head)
    try:
        name = codecs.lookup(declared.group(1).decode() if declared else "utf-8").name
        # A declaration that could be read as ASCII is not in UTF-16, whatever it says.
        readable = b"<?xml".decode(name) == "<?xml"
    except (LookupError, UnicodeError):
        return "utf-8"
    return name if readable and name != "ascii" else "utf-8"


def as_utf8(source: IO[bytes], name: str, errors: str = "strict") -> IO[bytes]:
    r"""A temporary file with the text of ``source``, which is in the encoding ``name``, in UTF-8.

    Raises:
        UnicodeError: some bytes are no such text; with ``errors="backslashreplace"`` they are
            written out instead, as ``\xff``.
    """
    decoder = codecs.getincrementaldecoder(name)(errors)
    target = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        for chunk in chunks(source):
            target.write(decoder.decode(chunk).encode(errors="backslashreplace"))
        target.write(decoder.decode(b"", final=True).encode(errors="backslashreplace"))
    except UnicodeError:
        target.close()
        raise
    return target


def without_namespaces(source: IO[bytes]) -> tuple[IO[bytes], str]:
    """A temporary file with the elements of ``source`` (UTF-8) by their local names alone.

    Returns:
        The file, and where ``source`` breaks off, in words; empty when it does not.
    """
    target = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    parser = strict_parser()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        local = {name.rpartition("}")[2]: value for name, value in attributes.items()}
        target.write(start_tag(tag.rpartition("}")[2], local))

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: target.write(f"</{tag.rpartition('}')[2]}>".encode())
    parser.CharacterDataHandler = lambda text: target.write(content(text))
    try:
        for chunk in chunks(source):
            parser.Parse(chunk)
        parser.Parse(b"", FINAL)
    except (ExpatError, UnfitError) as error:
        return target, str(error)
    return target, ""
