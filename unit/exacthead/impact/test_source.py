from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.impact.source import ON_IMPORT, changed_parts, ran, read_parts

TEXT = '''
"""A module."""
import os

LIMIT = 3

def plain(a, b=LIMIT):
    """Say."""
    return a + b

class Box:
    size = 1

    @property
    def value(self):
        def inner():
            return 2
        return inner()

    async def wait(self): return 1

if LIMIT:
    def other():
        return 1
else:
    def other():
        return 2
'''


def test_parts_are_the_import_and_the_functions_that_are_in_no_other() -> None:
    assert list(read_parts(TEXT)) == [
        *(ON_IMPORT, "plain", "Box.value", "Box.wait", "other", "other#2")
    ]


def test_a_function_ran_when_a_line_of_its_body_did() -> None:
    parts = read_parts(TEXT)
    lines = {text.strip(): number for number, text in enumerate(TEXT.splitlines(), 1)}

    assert ran(parts, {lines["def plain(a, b=LIMIT):"], lines["size = 1"]}) == set()
    assert ran(parts, {lines["return a + b"]}) == {"plain"}
    assert ran(parts, {lines["return 2"], lines["return inner()"]}) >= {"Box.value"}
    # On one line with its header nothing tells them apart.
    assert ran(parts, {lines["async def wait(self): return 1"]}) == {"Box.wait"}


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("return a + b", "return a - b", {"plain"}),
        ("            return 2", "            return 3", {"Box.value"}),
        ("        return 1", "        return 7", {"other"}),
        ("LIMIT = 3", "LIMIT = 4", {ON_IMPORT}),
        ("    size = 1", "    size = 2", {ON_IMPORT}),
        ("b=LIMIT", "b=4", {ON_IMPORT}),
        ("    @property\n", "", {ON_IMPORT}),
        ("def plain", "def renamed", {ON_IMPORT, "plain", "renamed"}),
        ("if LIMIT:", "if not LIMIT:", {ON_IMPORT}),
        ("import os", "import os  # why", set()),
        ("    return a + b", "\n    # a remark\n    return (a + b)", set()),
    ],
)
def test_a_change_is_told_apart_by_part(old: str, new: str, parts: set[str]) -> None:
    assert old in TEXT
    assert changed_parts(TEXT, TEXT.replace(old, new)) == parts


def test_moving_a_function_changes_the_import() -> None:
    one, two = "def f():\n    return 1\n", "def g():\n    return 2\n"

    assert changed_parts(one + two, two + one) == {ON_IMPORT}


def test_a_text_that_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        changed_parts(TEXT, "def :")


names = st.sampled_from(["f", "g", "h"])
values = st.integers(0, 2)
functions = st.lists(st.tuples(names, values), max_size=4)


@given(functions, values, functions, values)
def test_equal_parts_mean_equal_syntax(
    one: list[tuple[str, int]], first: int, two: list[tuple[str, int]], second: int
) -> None:
    def text(bodies: list[tuple[str, int]], limit: int) -> str:
        lines = [f"def {name}():\n    return {value}\n" for name, value in bodies]
        return f"LIMIT = {limit}\n" + "".join(lines)

    old, new = text(one, first), text(two, second)

    same = ast.dump(ast.parse(old)) == ast.dump(ast.parse(new))
    assert (changed_parts(old, new) == set()) == same
