from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exacthead.runs.render import code, plain


@given(st.text())
def test_plain_text_is_one_line_without_live_markup(text: str) -> None:
    line = plain(text)
    assert "\n" not in line
    stripped = line.replace("\\\\", "")
    assert all(stripped[at - 1] == "\\" for at, letter in enumerate(stripped) if letter in "`*_<|")


def test_code_is_fenced_by_more_backticks_than_it_holds() -> None:
    assert code("a `b` ``c`` d") == "```a `b` ``c`` d```"
    assert code("`a`") == "`` `a` ``"
    assert code("a\nb") == "`a b`"
