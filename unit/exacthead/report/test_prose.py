from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.report.prose import prose, sections


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("- one `code`", "<ul>\n<li>one <code>code</code></li>\n</ul>\n"),
        ("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>\n"),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>\n"),
        ("[a](https://b.example/)", '<p><a href="https://b.example/">a</a></p>\n'),
        ("![a](https://b.example/c.png)", '<p>!<a href="https://b.example/c.png">a</a></p>\n'),
        ("[a](data:text/html,x)", "<p>[a](data:text/html,x)</p>\n"),
    ],
)
def test_markdown_gives_no_more_than_text_and_links(markdown: str, html: str) -> None:
    assert prose([markdown]) == html


_PARTS = ["<b onclick=x>", "`", "**", "[", "](", ")", "javascript:", "|", "\n\n", "- ", '"', "&"]


@given(st.lists(st.sampled_from(_PARTS) | st.text(max_size=5)).map("".join))
def test_no_tag_of_the_text_s_own_gets_through(text: str) -> None:
    html = prose([text])
    assert "<b" not in html.replace("<blockquote", "")
    assert 'href="javascript' not in html


def test_sections_are_told_apart_by_their_headings_and_empty_ones_are_none() -> None:
    assert sections(["before", "## One", "", "- a", "## Two", "", "## One", "- b"]) == {
        "": ["before"],
        "One": ["", "- a", "- b"],
    }
