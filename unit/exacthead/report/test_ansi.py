from __future__ import annotations

import re
import time
from html import escape, unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.report.ansi import coloured, stripped

_SEQUENCES = [
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[1;4m",
    "\x1b[38;5;200m",
    "\x1b[48;2;1;2;3m",
    "\x1b[2K",
    "\x1b]0;title\x07",
    "\x1b(B",
    "\x1b",
    "<b>",
    "&",
    "\"'",
    "\x00",
    "\u202e",
]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m and not", '<span class="a-fg1">red</span> and not'),
        (
            "\x1b[1;31mboth\x1b[22monly red",
            '<span class="a-bold a-fg1">both</span><span class="a-fg1">only red</span>',
        ),
        ("\x1b[mnothing\x1b[m", "nothing"),
        ("\x1b[91;103mbright", '<span class="a-fg9 a-bg11">bright</span>'),
        ("\x1b[38;5;9mnine", '<span class="a-fg9">nine</span>'),
        ("\x1b[38;5;196mcube", '<span class="a-fg1">cube</span>'),
        ("\x1b[38;5;250mgrey", '<span class="a-fg7">grey</span>'),
        ("\x1b[38;2;10;200;30mtrue", '<span class="a-fg2">true</span>'),
        ("\x1b[38;5mcut short", "cut short"),
        ("\x1b[38;5;999mno such", "no such"),
        ("\x1b[?25lhidden cursor\x1b[2K\x1b[1A", "hidden cursor"),
        ("\x1b[>4mprivate", "private"),
        ("\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;a title without end\nnext", "\nnext"),
        ("\x1b[31m<script>&\"'", '<span class="a-fg1">&lt;script&gt;&amp;&#34;&#39;</span>'),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x00\x07\u202e", "\\x00\\x07\\u202e"),
    ],
)
def test_output_of_a_terminal_as_html(text: str, html: str) -> None:
    assert coloured(text) == html


@given(st.lists(st.sampled_from(_SEQUENCES) | st.text(max_size=8)).map("".join))
def test_no_text_gets_out_of_its_span(text: str) -> None:
    html = coloured(text)
    inner = html.replace("</span>", "")
    assert "<" not in "".join(part.partition(">")[2] for part in inner.split("<span class=")[1:])
    assert html.count("<span") == html.count("</span>") == html.count("<") - html.count("</span>")
    assert not any(letter in html for letter in "\x1b\x00\u202e")


@given(st.lists(st.sampled_from(_SEQUENCES) | st.text(max_size=8)).map("".join))
def test_what_is_read_is_the_same_with_and_without_colours(text: str) -> None:
    read = unescape(re.sub("<[^>]*>", "", coloured(text)))
    assert read == unescape(escape(stripped(text)))


def test_sequences_without_end_cost_no_more_than_their_length() -> None:
    text = "\x1b[" + "1;" * 200_000 + "\x1b]" * 200_000
    start = time.process_time()
    coloured(text)
    assert time.process_time() - start < 20
