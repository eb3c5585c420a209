"""The rule file: what it may hold, and that no rule can take long over any line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.bounded import check_bounded
from exacthead.classes.classify import Evidence, classify
from exacthead.classes.ends import HEAD_BYTES, TAIL_BYTES, read_ends
from exacthead.classes.rules import OURS, THEIRS, load_rules
from exacthead.errors import HarnessError
from exacthead.report.model import Class

if TYPE_CHECKING:
    from pathlib import Path

RULE = '[[rule]]\nid = "ours"\nclass = "infrastructure"\nhas = ["quota"]\n'


def test_a_repository_s_own_rules_come_first(tmp_path: Path) -> None:
    path = tmp_path / THEIRS
    path.parent.mkdir()
    path.write_text(RULE + "pattern = 'quota of (?P<who>\\w++)'\ngroup = '{who}'\n", "utf-8")

    found = classify(Evidence("failed", "MemoryError: quota of ray"), load_rules(tmp_path))

    assert (found.failure_class, found.group) == (Class.INFRASTRUCTURE, "ours: ray")
    assert len(load_rules(tmp_path)) == len(load_rules()) + 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[rule]", "TOML|Expected"),
        (RULE.replace("has", "hsa"), "hsa"),
        (RULE.replace("infrastructure", "weather"), "class"),
        (RULE + RULE, "more than one rule is called ours"),
        (RULE + "pattern = '(a'", "no regular expression"),
        (RULE + "pattern = 'a+'", "write it possessive"),
        (RULE + "group = '{who}'", "group names who"),
        (RULE.replace('has = ["quota"]', ""), "it would apply to everything"),
        (
            RULE.replace('has = ["quota"]', 'kinds = ["failed"]\npattern = "a"'),
            "a pattern without has",
        ),
    ],
)
def test_a_rule_file_that_is_wrong_is_refused(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / THEIRS
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")

    with pytest.raises(HarnessError, match=found):
        load_rules(tmp_path)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "a+",
            "a*",
            "a{2,}",
            "a{2,5}",
            "a+?",
            "(a|b)+",
            "(?:a+)+",
            "x(a+)*y",
            "(?=a+)b",
            "(?>a+)",
        ),
        *("(?:a?){9}", "[ab]*c", "(?P<n>a+)(?P=n)", "(a)?(?(1)b+|c)", "(?:ab?){3}", "(a++|b+)c"),
    ],
)
def test_a_pattern_that_can_go_back_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="possessive"):
        check_bounded(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["abc", "a++", "a*+", "a{1,9}+", "a?b", "a{3}", "(?:ab){3}", "[ab]++c", "(?P<n>a++)|b", ""],
)
def test_a_pattern_that_cannot_go_back_is_fine(pattern: str) -> None:
    assert check_bounded(pattern) == pattern


# What makes patterns that go back slow: long runs of what they repeat, and no end.
_RUNS = st.sampled_from(["a", "(", "'", " ", ".", "No module named ", "CUDA error: ", "x.", "\\"])


@settings(max_examples=40)
@given(st.lists(st.tuples(_RUNS, st.integers(1, 3000)), max_size=4), st.data())
def test_a_hostile_line_is_searched_within_bounds(
    runs: list[tuple[str, int]], data: st.DataObject
) -> None:
    """No clock: a pattern that went back on these would not come to an end in any test's time."""
    rules = load_rules()
    hint = data.draw(st.sampled_from([each for rule in rules for each in rule.has]))
    line = hint + "".join(text * count for text, count in runs)

    found = classify(Evidence("failed", line, log=line), rules)

    assert len(found.line) <= 2010


def test_only_the_ends_of_a_log_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(500 << 20)  # no block of it is on the disk
        file.seek(0, 2)
        file.write(b"\nlast \xff\n")

    ends = read_ends(path)

    assert ends.cut
    assert ends.size == (500 << 20) + 8
    assert ends.head == "first"
    assert ends.last == "last \\xff\n"
    assert HEAD_BYTES + TAIL_BYTES < 1 << 20


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 99])
def test_a_log_is_read_whole_or_cut_at_lines(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log"
    content = b"".join(b"line %02d\n" % number for number in range(20))[:size]
    path.write_bytes(content)

    ends = read_ends(path, head=20, tail=30)

    if size <= 50:
        assert (ends.head, ends.tail, ends.cut) == (content.decode(), "", False)
    else:
        assert ends.cut
        assert ends.head.splitlines() == content.decode().splitlines()[:2]
        assert content.decode().endswith(ends.tail)
        assert ends.tail.startswith("line ")


def test_our_rules_are_in_the_package() -> None:
    assert OURS.is_file()
