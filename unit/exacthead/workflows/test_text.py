"""Any text in YAML is that text again, for a reader of YAML and for GitHub's expressions."""

from __future__ import annotations

import re

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from exacthead.workflows.generate import ALL, choices
from exacthead.workflows.text import as_expression_free_yaml, as_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


# A key of YAML on one line may have 1,024 characters, and each can take ten.
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@given(st.recursive(TEXTS, lambda each: st.lists(each) | st.dictionaries(KEYS, each)))
@example("🚀 \x7f\x85\u2028\ufeff\\u0041 'yes' null")
def test_a_reader_of_yaml_gets_what_was_meant(value: object) -> None:
    for indent in (None, 1):
        text = as_yaml(value, indent)
        assert text.isascii()
        assert yaml.safe_load(text) == value


@given(TEXTS, TEXTS)
def test_what_looks_like_an_expression_stays_text(before: str, after: str) -> None:
    value = f"{before}${{{{ secrets.KEY }}}}{after}"

    read = yaml.safe_load(as_expression_free_yaml(value))

    # The only expression that is left is a literal.
    evaluated = re.sub(r"\$\{\{ '\$\{\{' \}\}", "${{", read)
    assert evaluated == value
    assert len(re.findall(r"\$\{\{(?!' \}\})", read)) == value.count("${{")


def test_a_dispatch_offers_what_it_can_write() -> None:
    assert choices(["a", "${{ x }}", "b\n"]) == [ALL, "a", "b\n"]
