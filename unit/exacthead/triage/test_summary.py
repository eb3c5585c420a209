from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from exacthead.runs.result import ItemResult
from exacthead.triage.known import Known
from exacthead.triage.quarantine import apply
from exacthead.triage.summary import (
    Said,
    Triage,
    joined,
    lines,
    of_known,
    of_legs,
    of_results,
)
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import TODAY, known_failure, outcome

B = "u/test_a.py::test_b"
LINK = "https://tracker.example/issues/7"


def test_nothing_to_say_gives_no_lines() -> None:
    assert lines(of_results([outcome(B, Kind.PASSED), outcome(B, Kind.FAILED)])) == []


def test_a_quarantined_test_is_told_with_its_issue_and_what_happened() -> None:
    results = apply([outcome(B, Kind.FAILED)], Known((known_failure(),)), "small", TODAY)

    assert lines(of_results(results)) == [
        "### Quarantined: known failures, which do not block (1)",
        "",
        f"- `{B}`: the cache is cold ({LINK}, until 2030-01-31); failed: assert 1 == 2",
    ]


def test_a_flaky_test_is_told_with_every_attempt() -> None:
    flaky = outcome(B, Kind.CRASHED, Kind.FAILED, Kind.PASSED)

    assert lines(of_results([flaky])) == [
        "### Flaky: a fresh process disagreed (1)",
        "",
        f"- `{B}`: 1 of 3 attempts passed",
        "  - attempt 1 (process 1, 0.25 s) crashed: assert 1 == 2",
        "  - attempt 2 (process 2, 0.25 s) failed: assert 1 == 2",
        "  - attempt 3 (process 3, 0.25 s) passed",
    ]


@pytest.mark.parametrize(
    ("kinds", "flaky", "broken"),
    [
        ((Kind.PASSED,), False, False),
        ((Kind.FAILED,), False, False),
        ((Kind.FAILED, Kind.PASSED), True, False),
        ((Kind.FAILED, Kind.FAILED), False, True),
        ((Kind.FAILED, Kind.CRASHED, Kind.TIMED_OUT), False, True),
        ((Kind.FAILED, Kind.NOT_RUN), False, False),
        ((Kind.FAILED, Kind.SKIPPED), False, False),
        ((Kind.FAILED, Kind.FAILED, Kind.NOT_RUN), False, True),
    ],
)
def test_a_test_that_never_passes_is_broken_and_not_flaky(
    kinds: tuple[Kind, ...], flaky: bool, broken: bool
) -> None:
    triage = of_results([outcome(B, *kinds)])

    assert (bool(triage.flaky), bool(triage.broken)) == (flaky, broken)


def test_what_the_base_shows_too_is_told_and_other_notes_are_not() -> None:
    note = "also red on base c0ffee in 2 of 5 runs"
    result = replace(outcome(B, Kind.FAILED), notes=("another note", note))
    leg = ItemResult(
        item_id="train.plain", verdict=Verdict(Kind.FAILED, "exit code 3"), notes=(note,)
    )

    assert of_results([result]).also_red == (Said(B, note),)
    assert of_legs([leg]).also_red == (Said("train.plain", note),)


def test_a_quarantined_leg_is_told() -> None:
    leg = ItemResult(item_id="train.plain", verdict=Verdict(Kind.QUARANTINED, "known; failed"))

    assert of_legs([leg]).quarantined == (Said("train.plain", "known; failed"),)


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


def test_parts_are_joined_and_nothing_is_said_twice() -> None:
    one = of_results([outcome(B, Kind.FAILED, Kind.PASSED)])
    two = of_results([outcome("u/test_a.py::test_c", Kind.FAILED, Kind.PASSED)])

    whole = joined([one, two, one])

    assert [said.name for said in whole.flaky] == [B, "u/test_a.py::test_c"]
    assert joined([]) == Triage()


def test_every_section_has_a_title() -> None:
    said = (Said("a", "b"),)
    whole = Triage(**{each.name: said for each in fields(Triage)})

    assert sum(line.startswith("### ") for line in lines(whole)) == len(fields(Triage))


def test_text_from_tests_is_shown_as_text() -> None:
    triage = Triage(broken=(Said("u/a.py::t[`<b>`]", "<script>|*x*\nnext", ("a\n# b",)),))

    assert lines(triage)[2:] == [
        "- ``u/a.py::t[`<b>`]``: \\<script\\>\\|\\*x\\* next",
        "  - a \\# b",
    ]


def test_a_long_section_is_cut_and_says_so() -> None:
    many = tuple(Said(f"u/a.py::t[{number}]", "red") for number in range(60))

    written = lines(Triage(also_red=many))

    assert written[0] == "### Also red on the base (60)"
    assert written[-1] == "- and 10 more"
    assert len(written) == 53
