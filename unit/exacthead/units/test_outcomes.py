"""Every way in which pytest says how a test went has its verdict and causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unit.exacthead.units.small import Suite

FILE = "tests/test_ways.py"
WAYS = """
    import unittest
    import pytest

    @pytest.fixture
    def breaks_before():
        raise OSError("no engine")
    @pytest.fixture
    def breaks_after():
        yield
        raise OSError("still running")

    def test_passes(record_property):
        record_property("loss", 0.25)
    def test_fails(): assert 1 == 2
    def test_setup(breaks_before): pass
    def test_teardown(breaks_after): pass
    def test_both(breaks_after): assert 0, "first\\nsecond line"
    @pytest.mark.skip(reason="no GPU")
    def test_skip_mark(): pass
    def test_skips(): pytest.skip("not today")
    @pytest.mark.xfail(reason="issue 7")
    def test_xfail(): assert 0
    @pytest.mark.xfail(reason="issue 8", strict=False)
    def test_xpass(): pass
    @pytest.mark.xfail(reason="issue 9", strict=True)
    def test_strict(): pass
    @pytest.mark.xfail(reason="issue 10")
    def test_xfail_teardown(breaks_after): assert 0
    def test_subtests(subtests):
        with subtests.test(part=1): assert 0, "part one"
        with subtests.test(part=2): print("part two")
    class TestCase(unittest.TestCase):
        def test_unit(self): self.assertEqual(1, 2)
"""


def test_all_outcomes_of_pytest(suite: Callable[[Mapping[str, str]], Suite]) -> None:
    names = (
        *("passes", "fails", "setup", "teardown", "both", "skip_mark", "skips"),
        *("xfail", "xpass", "strict", "xfail_teardown", "subtests"),
    )
    ids = (*(f"{FILE}::test_{name}" for name in names), f"{FILE}::TestCase::test_unit")
    here = suite({FILE: WAYS})
    ran = here.run(here.order(ids))
    causes = {
        name.split("::")[-1]: [
            (cause.phase, str(cause.verdict)) for cause in result.attempts[0].causes
        ]
        for name, result in ran.results.items()
    }
    subtests = causes.pop("test_subtests")
    assert causes == {
        "test_passes": [],
        "test_fails": [("call", "failed(assert 1 == 2)")],
        "test_setup": [("setup", "failed(OSError: no engine)")],
        "test_teardown": [("teardown", "failed(OSError: still running)")],
        "test_both": [
            ("call", "failed(AssertionError: first)"),
            ("teardown", "failed(OSError: still running)"),
        ],
        "test_skip_mark": [("setup", "skipped(no GPU)")],
        "test_skips": [("call", "skipped(not today)")],
        "test_xfail": [("call", "skipped(xfail: issue 7)")],
        "test_xpass": [],
        "test_strict": [("call", "failed([XPASS(strict)] issue 9)")],
        "test_xfail_teardown": [
            ("call", "skipped(xfail: issue 10)"),
            ("teardown", "skipped(xfail: issue 10)"),
        ],
        "test_unit": [("call", "failed(AssertionError: 1 != 2)")],
    }
    assert subtests[0] == ("call", "failed(AssertionError: part one)")
    assert ran.written(f"{FILE}::test_subtests") == "part two\n"
    assert ran.results[f"{FILE}::test_passes"].properties == {"loss": "0.25"}
    assert ran.results[f"{FILE}::test_xpass"].notes == ("passed although marked xfail: issue 8",)
    assert "def test_fails" in ran.results[ids[1]].attempts[0].causes[0].text
    assert all(result.seconds is not None and result.seconds < 30 for result in ran.reading.results)


SKIPS = """
    import unittest
    import pytest
    def test_says_so(): pytest.skip("xfail: only in words")
    @pytest.mark.xfail(reason="issue 7")
    def test_xfail(): assert 0
    @pytest.mark.xfail(reason="issue 8", run=False)
    def test_never_runs(): assert 0
    def test_parts(subtests):
        for part in range(3):
            with subtests.test(part=part):
                if part: pytest.skip("no GPU")
    class TestCase(unittest.TestCase):
        def test_unit(self):
            with self.subTest(part=1): self.skipTest("no disk")
            with self.subTest(part=2): pass
"""


def test_what_is_left_undone_is_told_by_reports_and_red_where_skips_are_not_accepted(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    names = ("test_says_so", "test_xfail", "test_never_runs", "test_parts", "TestCase::test_unit")
    ids = tuple(f"{FILE}::{name}" for name in names)
    ran = suite({FILE: SKIPS}).run(suite({}).order(ids))
    says_so, xfail, never, parts, unit = ran.reading.results
    assert [str(each.verdict) for each in (says_so, xfail, never, parts)] == [
        "skipped(xfail: only in words)",
        "skipped(xfail: issue 7)",
        "skipped(xfail: [NOTRUN] issue 8)",
        "passed",
    ]
    assert [each.attempts[-1].skipped for each in ran.reading.results] == [
        *(True, False, True),
        *(True, True),
    ]
    assert parts.notes == ("2 subtests skipped: no GPU",)
    assert "no disk" in f"{unit.verdict} {unit.notes}"


def test_options_that_stop_pytest_leave_the_rest_visibly_not_run(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import pytest
                def test_a(): pytest.exit("the cluster is gone")
                def test_b(): assert 0
                def test_c(): pass
            """
        }
    )
    a, b, c = (f"tests/test_a.py::test_{name}" for name in "abc")
    ran = here.run(here.order((a,), (b, c)))
    assert list(ran.verdicts.values()) == [
        "failed(it ended pytest: pytest.exit: the cluster is gone)",
        *[f"not_run({a} called pytest.exit: the cluster is gone)"] * 2,
    ]
    first = here.run(here.order((b,), (c,), arguments=("-x",)), "again")
    assert list(first.verdicts.values()) == [
        "failed(assert 0)",
        "not_run(stopping after 1 failures)",
    ]
    assert (ran.code, first.code) == (1, 1)
    nothing = here.run(here.order(), "empty")
    assert (nothing.code, nothing.reading.results) == (5, ())


def test_a_plugin_that_leaves_reports_out_makes_no_pass(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "conftest.py": """
                import pytest
                @pytest.hookimpl(tryfirst=True)
                def pytest_runtest_protocol(item, nextitem):
                    return True if item.name == "test_silent" else None
            """,
            "tests/test_a.py": "def test_silent(): assert 0\ndef test_heard(): pass",
        }
    )
    silent, heard = "tests/test_a.py::test_silent", "tests/test_a.py::test_heard"
    ran = here.run(here.order((silent, heard)))
    assert ran.verdicts == {
        silent: "not_run(pytest told nothing of its call, setup, teardown)",
        heard: "passed",
    }
    only_setup = here.run(here.order((heard,), arguments=("--setup-only",)), "again")
    assert only_setup.verdicts == {heard: "not_run(pytest told nothing of its call)"}
