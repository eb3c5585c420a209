"""Text that XML can hold, and the few tags that are written by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What XML 1.0 cannot hold (https://www.w3.org/TR/xml/#charsets), surrogates included.
UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A reader turns a bare carriage return into a line feed; in an attribute all become blanks.
_IN_CONTENT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_CONTENT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def xml_text(text: str) -> str:
    r"""``text`` with each character that XML cannot hold written out, as ``\x1b`` or ``\ud800``."""
    return UNWRITABLE.sub(lambda found: ascii(found.group())[1:-1], text)


def content(text: str) -> bytes:
    """``text`` as the content of an element, in UTF-8."""
    return text.translate(_IN_CONTENT).encode()


def start_tag(tag: str, attributes: Mapping[str, str], end: str = ">") -> bytes:
    """A start tag in UTF-8; with ``end="/>"`` the tag of an empty element."""
    written = [f' {name}="{value.translate(_IN_ATTRIBUTE)}"' for name, value in attributes.items()]
    return f"<{tag}{''.join(written)}{end}".encode()
