from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

from exacthead.triage.known import Known
from exacthead.triage.summary import (
    Said,
    Triage,
    lines,
    of_known,
)
from unit.exacthead.triage.making import TODAY, known_failure

B = "u/test_a.py::test_b"
LINK = "https://tracker.example/issues/7"


def test_nothing_to_say_gives_no_lines() -> None:
    assert lines(of_known(Known(), TODAY)) == []


def test_what_the_list_itself_says_names_owner_and_issue() -> None:
    expired = known_failure("u/test_a.py::test_old", expires=TODAY - timedelta(days=1))
    ready, unused = known_failure(), known_failure("u/test_a.py::test_c[1]")

    triage = of_known(
        Known((ready, expired, unused)), TODAY, [ready], [unused], ["downloads: no run"]
    )

    assert lines(triage) == [
        "### Ready to leave the known failures (1)",
        "",
        f"- `{B}`: generation team, {LINK}: remove its entry",
        "",
        "### Expired known failures, which block again (1)",
        "",
        f"- `u/test_a.py::test_old`: since 2030-01-14; generation team, {LINK}",
        "",
        "### Unused known failures (1)",
        "",
        f"- `u/test_a.py::test_c[1]`: names no test; generation team, {LINK}",
        "",
        "### Not read of the history (1)",
        "",
        "- downloads: no run",
    ]


def test_every_section_has_a_title() -> None:
    said = (Said("a", "b"),)
    whole = Triage(**{each.name: said for each in fields(Triage)})

    assert sum(line.startswith("### ") for line in lines(whole)) == len(fields(Triage))


def test_text_from_tests_is_shown_as_text() -> None:
    triage = Triage(unused=(Said("u/a.py::t[`<b>`]", "<script>|*x*\nnext"),))

    assert lines(triage)[2:] == ["- ``u/a.py::t[`<b>`]``: \\<script\\>\\|\\*x\\* next"]


def test_a_long_section_is_cut_and_says_so() -> None:
    many = tuple(Said(f"u/a.py::t[{number}]", "red") for number in range(60))

    written = lines(Triage(ready=many))

    assert written[0] == "### Ready to leave the known failures (60)"
    assert len(written) == 2 + 50 + 1
    assert written[-1] == "- and 10 more"
