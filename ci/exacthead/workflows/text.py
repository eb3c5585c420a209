"""Text: anything as YAML that means nothing but itself to any reader of it."""

from __future__ import annotations

import json


def as_yaml(value: object, indent: int | None = None) -> str:
    """A value as JSON that is YAML too, in printable ASCII.

    JSON writes a character beyond the first 65,536 as two halves, which YAML takes for none.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(each if each == "\n" or " " <= each <= "~" else _escaped(each) for each in text)


def as_expression_free_yaml(value: object) -> str:
    """The same where GitHub evaluates expressions: what looks like one stays text."""
    return as_yaml(value).replace("${{", "${{ '${{' }}")


def _escaped(character: str) -> str:
    code = f"{ord(character):04x}"
    return f"\\u{code}" if len(code) == len("ffff") else f"\\U{code:0>8}"
