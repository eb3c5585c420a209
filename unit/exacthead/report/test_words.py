from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.report import words
from exacthead.verdict import Kind


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "unknown"), (math.nan, "unknown"), (0.0, "0.000 s"), (0.0344, "0.034 s"),
     (8.14, "8.1 s"), (42.4, "42 s"), (59.6, "1 min 00 s"), (381.7, "6 min 22 s"),
     (3840.0, "1 h 04 min"), (7199.0, "2 h 00 min")],
)  # fmt: skip
def test_durations(value: float | None, said: str) -> None:
    assert words.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5e8, "476.8 MiB"), (2**45, "32768.0 GiB")],
)
def test_sizes(value: float, said: str) -> None:
    assert words.size(value) == said


def test_every_verdict_has_a_mark_of_its_own_beside_its_colour() -> None:
    marks = [words.mark(kind) for kind in Kind]
    assert len(set(marks)) == len(marks)
    assert "?" not in marks


@pytest.mark.parametrize(
    ("value", "said"),
    [(3, "3"), (0.123456, "0.1235"), (math.inf, "inf"), (True, "True"), ("text", "text")],
)
def test_numbers(value: object, said: str) -> None:
    assert words.number(value) == said


@given(st.text(), st.integers(2, 40))
def test_a_clipped_text_keeps_its_ends(text: str, most: int) -> None:
    clipped = words.clipped(text, most)
    if len(text) <= most:
        assert clipped == text
    else:
        assert clipped.startswith(text[: most // 2])
        assert clipped.endswith(text[-(most // 2) :])
        assert f"{len(text) - 2 * (most // 2)} characters left out" in clipped


def test_a_moment_that_is_none_stays_as_it_is() -> None:
    assert words.moment("2026-08-01T10:15:00+00:00") == "2026-08-01 10:15 UTC"
    assert words.moment("yesterday") == "yesterday"
