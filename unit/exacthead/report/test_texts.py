"""The texts of a report: Markdown, terminal, step summary, annotations."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from exacthead.report.annotations import MOST, workflow_commands
from exacthead.report.markdown import markdown, step_summary
from exacthead.report.model import Head, Report, Standing
from exacthead.report.terminal import show
from unit.exacthead.report.making import AGAIN, FAILURE, report

FOLDER = "/runs/r1"


def terminal(said: Report, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(said, FOLDER, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_markdown_says_what_matters_most_first() -> None:
    text = markdown(report(), FOLDER)

    assert text.splitlines()[:3] == [
        "# Exacthead: 1 new failure, 1 known, 1 not run, 1 passed",
        "",
        "failed at head c0ffeec0ffee on small (cpu), 25 s (expected 23 s)",
    ]
    parts = [
        "## New failures (1)",
        "- **u/test\\_a.py::test\\_b[\\<b\\>\\|\\`x\\`]**".replace("[", "\\[").replace("]", "\\]"),
        ": failed (assertion): assert 1 == 2",
        "  - since head beefbeefbeef (2030-01-01), 3 runs, green at f00df00df00d",
        "  - attempt 1 failed after 0.25 s: assert 1 == 2",
        "  - attempt 2 failed: assert 1 == 3",
        "  - known failure expired",
        f"  - Run it again: `{AGAIN}`",
        "## Not run (1)",
        "- **u/test\\_a.py::c**: not\\_run: its process died",
        "## Quarantined: known failures, which do not block (1)",
        "| loss is finite | 0.5 |",
        "| unit.own | failed | 3.2 | 3.0 | 0 |  |",
        "| train.plain | generation | 21.0 |",
        "| policy | cpu | kkkkkkkkkkkk | built | 12.3 |",
        "## Different from the last green run r9",
        "- commit c0ffee A step",
        "- **loss of train.plain**: 0.5 -\\> 0.75 (9 x its noise) since head beefbeefbeef, run r5",
        "### Ready to leave the known failures (1)",
        "- worker policy: 3.13.0 is below its floor",
        "- unit.own: new name in /dev/shm",
        "Run folder: `/runs/r1`",
    ]
    at = [text.find(part) for part in parts]
    assert -1 not in at, parts[at.index(-1)]
    assert sorted(at) == at


def test_the_terminal_ends_with_the_new_failures_and_the_verdict() -> None:
    text = terminal(report())

    assert text.splitlines()[-3:] == [
        "Exacthead: 1 new failure, 1 known, 1 not run, 1 passed",
        "failed at head c0ffeec0ffee on small (cpu), 25 s (expected 23 s)",
        "Run folder: /runs/r1",
    ]
    # A line to copy is never broken, however narrow the terminal is.
    assert f"    run it again: {AGAIN}\n" in text
    assert text.index("Not run (1)") < text.index("New failures (1)") < text.index("Exacthead: ")
    for part in ("loss is finite", "kkkkkkkkkkkk", "new name in /dev/shm"):
        assert text.index(part) < text.index("Not run (1)")


def test_an_item_s_own_failure_says_what_it_left_behind() -> None:
    whole = replace(FAILURE, name="unit.own")

    assert "left behind: process 7 `sleep 600`" in terminal(report(failures=(whole,)))


def test_a_dirty_head_is_shown() -> None:
    text = markdown(report(head=Head("0123456789abcdef", "", dirty=True)), FOLDER)

    assert "at head 0123456789ab-dirty on" in text


def test_hostile_text_stays_text() -> None:
    hostile = "\x1b[31m# a\n\n| b | <script> `c`\n## Not run (0)"
    said = report(failures=(replace(FAILURE, name=hostile, cause=hostile),), verdict=hostile)

    text = markdown(said, FOLDER)

    assert "\x1b" not in text + terminal(said)
    assert "\\<script\\> \\`c\\`" in text
    assert "\n## Not run (0)" not in text


def test_a_long_section_is_cut_and_says_so() -> None:
    many = tuple(
        replace(FAILURE, name=f"u/a.py::t[{number}]", group=f"assertion: {number}")
        for number in range(60)
    )

    text = markdown(report(failures=many), FOLDER)

    assert "## New failures (60)" in text
    assert text.count("**u/a.py::t") == 50
    assert "\n- and 10 more" in text


def test_faults_of_one_cause_are_one_entry_and_equal_attempts_one_line() -> None:
    again = replace(FAILURE.attempts[0], number=2)
    same = replace(FAILURE, attempts=(FAILURE.attempts[0], again))
    many = (same, *(replace(same, name=f"u/a.py::t{number}") for number in range(7)))
    base = replace(same, name="u/a.py::base", standing=Standing.ALSO_RED)

    text = markdown(report(failures=(*many, base)), FOLDER)

    assert "## New failures (8)" in text
    assert text.count("  - all 2 attempts showed the same\n") == 2
    said = "the same cause in 7 others: u/a.py::t0, u/a.py::t1, u/a.py::t2, u/a.py::t3, u/a.py::t4"
    assert f"  - {said}, and 2 more\n" in text
    # What is also red on the base is another thing, and hides nothing new.
    assert "## Also red on the base (1)\n\n- **u/a.py::base**" in text


def test_a_step_summary_that_fits_is_the_whole() -> None:
    assert step_summary(report(), FOLDER) == markdown(report(), FOLDER)


@given(st.integers(min_value=700, max_value=6000))
def test_a_step_summary_never_exceeds_its_room_and_names_what_is_left_out(room: int) -> None:
    long = report(notes=("n" * 4000,))

    text = step_summary(long, FOLDER, room)

    assert len(text.encode()) <= room
    assert text.startswith("# Exacthead: 1 new failure")
    if text != markdown(long, FOLDER):
        assert "left out here: " in text
        assert "Notes" in text.partition("left out here: ")[2]


@given(st.integers(min_value=-5, max_value=300))
def test_there_may_be_no_room_at_all(room: int) -> None:
    assert len(step_summary(report(), FOLDER, room).encode()) <= max(0, room)


def test_an_annotation_has_its_place_and_its_line_to_copy() -> None:
    (line,) = workflow_commands(report())

    title = "u/test_a.py%3A%3Atest_b[<b>|`x`] (assertion)"
    assert line == (
        f"::error file=u/test_a.py,line=7,title={title}::assert 1 == 2%0ARun it again: {AGAIN}"
    )


def test_only_new_failures_are_annotated_and_ten_at_most() -> None:
    many = [replace(FAILURE, name=f"t{number}") for number in range(30)]
    many += [replace(FAILURE, standing=Standing.ALSO_RED)]

    lines = workflow_commands(report(failures=tuple(many)))

    assert len(lines) == MOST
    assert lines[-1] == "::error title=Exacthead::and 21 more failures"


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "::set-env name=X::y", "100%0A", "a:b,c"])
def test_nothing_gets_out_of_an_annotation(text: str) -> None:
    said = report(failures=(replace(FAILURE, name=text, cause=text, file=text),))

    (line,) = workflow_commands(said)

    # As the runner reads it: one line; properties up to the second `::`.
    assert re.fullmatch(r"[^\r\n]*", line)
    properties, _, message = line.removeprefix("::error ").partition("::")
    values = dict(each.split("=", 1) for each in properties.split(","))

    def read(value: str) -> str:
        codes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}
        return re.sub("%(?:0D|0A|3A|2C|25)", lambda found: codes[found[0]], value)

    assert read(values["file"]) == text
    assert read(values["title"]) == f"{text} (assertion)"
    assert read(message) == f"{text}\nRun it again: {AGAIN}"
