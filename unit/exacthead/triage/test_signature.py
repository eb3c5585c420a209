from __future__ import annotations

import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from exacthead.triage.signature import message, normalised, of_messages, of_result
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict

ONE_FAULT_TWICE = [
    ("<Engine object at 0x7f3a11>", "<Engine object at 0x55d0ffee>"),
    ("unit/test_a.py:12: KeyError: 'a'", "unit/test_a.py:14: KeyError: 'a'"),
    ("kernel.cu:88: misaligned", "kernel.cu:9:14: misaligned"),
    ("at line 3 of the recipe", "at line 30 of the recipe"),
    ("no answer after 2.01 s", "no answer after 2.5s"),
    ("took 12 ms", "took 9 ms"),
    ("2030-01-02T03:04:05.678Z gone", "2031-12-30 23:59 gone"),
    ("[03:04:05,1] lost", "[13:04:59] lost"),
    ("process 71 ended by SIGSEGV", "process 4711 ended by SIGSEGV"),
    ("worker (pid=71) died", "worker (pid=4) died"),
    ("port 8000 is taken", "port 51234 is taken"),
    ("http://127.0.0.1:4000/v1 refused", "http://127.0.0.1:51000/v1 refused"),
    ("bind ('127.0.0.1', 4000)", "bind ('127.0.0.1', 51000)"),
    ("no file '/tmp/tmpab12cd34/a.json'", "no file '/tmp/tmpzz98_x00/a.json'"),
    ("in /tmp/pytest-of-ann/pytest-3/test_b0/out", "in /tmp/pytest-of-bob/pytest-44/test_b0/out"),
    ("in /tmp/eh-a1/tmp/alpha-ab12cd34", "in /tmp/eh-b2/tmp/alpha-98xyz_1a"),
    ("<Thread(T, started 1401)>", "<Thread(T, started 977)>"),
    ("runs/20300101-020304-0123456789ab-dirty-00ff", "runs/20310101-020304-ba9876543210-1234"),
    (
        "rollout 123e4567-e89b-42d3-a456-426614174000",
        "rollout 00000000-e89b-42d3-a456-4266aaaaaaaa",
    ),
    ("\x1b[31mred\x1b[0m   and\n\twide", "red and wide"),
]


@pytest.mark.parametrize(("one", "two"), ONE_FAULT_TWICE)
def test_one_fault_in_two_runs_has_one_signature(one: str, two: str) -> None:
    assert normalised(one) == normalised(two)
    assert of_messages([one]) == of_messages([two])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("assert 1 == 2", "assert 1 == 3"),
        ("assert [1, 2] == [1, 3]", "assert [1, 2] == [1, 4]"),
        ("assert 0.5 < 0.25", "assert 0.5 < 0.125"),
        ("assert 'a/b' == 'a/c'", "assert 'a/b' == 'a/d'"),
        ("KeyError: 'alpha'", "KeyError: 'beta'"),
        ("no file '/tmp/tmpab12cd34/a.json'", "no file '/tmp/tmpab12cd34/b.json'"),
        ("shape (3, 4)", "shape (4, 3)"),
        ("exit code 3", "exit code 4"),
        ("step 7 is missing", "step 8 is missing"),
        ("unit/test_a.py:12: boom", "unit/test_b.py:12: boom"),
        ("expected 2030-01-01", "expected 2030-01-02"),
        ("version 3.13.0", "version 3.13.1"),
    ],
)
def test_another_fault_has_another_signature(one: str, two: str) -> None:
    assert normalised(one) != normalised(two)


def test_the_messages_count_and_their_order_does_not() -> None:
    assert of_messages(["a", "b"]) == of_messages(["b", "a"])
    assert len({of_messages(each) for each in (["a", "b"], ["a b"], ["a"], ["a", "a"], [])}) == 5
    assert of_messages([]) == ""


def test_the_lines_that_pytest_marks_tell_more_than_the_reason() -> None:
    traceback = (
        "def test_b():\n>   assert_allclose(a, b)\nE   AssertionError: \nE   {} differ\n\nu.py:3"
    )

    one, two = (message("AssertionError:", traceback.format(number)) for number in (1, 2))

    assert normalised(one) == "AssertionError: AssertionError: 1 differ"
    assert normalised(one) != normalised(two)
    assert message("SIGSEGV", "Thread 1\n  File x.py, line 3") == "SIGSEGV"


# Pieces that rules look for, and what could join two of them after a rule has run.
PIECES = [
    *("0x1f", "12", " ", "line ", "port ", "pid=", ":", "/tmp/", "/a", "s", "ms", "\x1b[0m"),
    *("\\x1b[0m", "-", "T", "2030-01-02", "03:04:05", ".py", "<temp>", "127.0.0.1", ", started "),
    *("tmpab12cd34", "\n", "\x00", "0", "x", "[", "]", "1", "b", "(", "'", "e"),
]


@example("0\x1b[0mx1f")
@example("li\x1b[0mne 12")
@example("\x1b[3\x1b[0m1mred")
@example("pid 1pid 12")
@example("/tmp//tmp/a")
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_what_is_normal_stays_as_it_is(text: str) -> None:
    once = normalised(text)

    assert normalised(once) == once


values = st.recursive(
    st.one_of(
        st.integers(),
        st.floats(allow_nan=False),
        st.booleans(),
        st.none(),
        st.text(string.ascii_letters + "_ ", max_size=12).map(lambda text: " ".join(text.split())),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)


@given(values, values, values, values)
def test_different_assertions_stay_different(
    one: object, two: object, a: object, b: object
) -> None:
    first, second = f"assert {one!r} == {two!r}", f"assert {a!r} == {b!r}"
    assume(first != second)

    assert normalised(first) != normalised(second)


@given(values, values)
def test_an_assertion_about_values_is_kept_as_it_is(one: object, two: object) -> None:
    message = f"AssertionError: assert {one!r} == {two!r}"

    assert normalised(message) == message


def test_a_result_s_signature_is_that_of_its_last_attempt_s_faults() -> None:
    call = Cause("call", Verdict(Kind.FAILED, "assert 1 == 2"), "u/a.py:9:\nE   assert 1 == 2")
    teardown = Cause("teardown", Verdict(Kind.FAILED, "port 99 is taken"), "another")
    skipped = Cause("call", Verdict(Kind.SKIPPED, "no accelerator"))
    earlier = Attempt(1, 0.1, (Cause("call", Verdict(Kind.CRASHED, "SIGSEGV")),))
    last = Attempt(2, 0.1, (call, skipped, teardown))
    result = TestResult("u/a.py::t", (earlier, last), call.verdict)

    assert of_result(result) == of_messages(
        ["assert 1 == 2\nassert 1 == 2", "teardown: port 7 is taken"]
    )
