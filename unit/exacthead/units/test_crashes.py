"""Whatever ends a pytest process: the test in flight is the culprit, the others have their ends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unit.exacthead.units.small import Suite

FILE = "tests/test_deaths.py"
DEATHS = """
    import ctypes, os, signal, threading, time, _thread
    import pytest

    @pytest.fixture
    def dies_at_its_end():
        yield
        os.kill(os.getpid(), signal.SIGKILL)

    def test_first(): print("fine")
    def test_segfault():
        os.write(1, b"before the end \\xff\\xe2")
        os.write(1, b"\\x82\\xac\\n")
        ctypes.string_at(0)
    def test_leaves(): os._exit(0)
    def test_group(): os.killpg(0, signal.SIGKILL)
    def test_abort_in_thread():
        thread = threading.Thread(target=os.abort)
        thread.start()
        thread.join()
    def test_fixture(dies_at_its_end): assert False, "this stays"
    def test_interrupt(): raise KeyboardInterrupt
    def test_sys_exit(): raise SystemExit(3)
    def test_last(): pass
"""
NAMES = (
    *("first", "segfault", "leaves", "group", "abort_in_thread"),
    *("fixture", "interrupt", "sys_exit", "last"),
)


def test_each_death_has_its_culprit_and_the_rest_goes_on(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    ids = tuple(f"{FILE}::test_{name}" for name in NAMES)
    here = suite({FILE: DEATHS})
    ran = here.run(here.order(ids))
    middle = "in the middle of the test"
    assert ran.verdicts == dict(
        zip(
            ids,
            [
                "passed",
                f"crashed(its process was ended by SIGSEGV {middle})",
                f"crashed(its process ended with exit code 0 {middle})",
                f"crashed(its process was ended by SIGKILL {middle})",
                f"crashed(its process was ended by SIGABRT {middle})",
                f"crashed(its process was ended by SIGKILL {middle})",
                "failed(it ended pytest: KeyboardInterrupt)",
                "failed(SystemExit: 3)",
                "passed",
            ],
            strict=True,
        )
    )
    assert ran.code == 1
    assert ran.reading.complete
    assert ran.reading.faults == ()
    assert [len(result.attempts) for result in ran.reading.results] == [1] * len(ids)

    segfault = ran.results[ids[1]].attempts[0]
    assert ran.written(ids[1], phase="process") == "before the end \\xff€\n"
    assert "before the end \\xff€" in segfault.causes[0].text
    assert re.search(r'test_deaths.py", line \d+ in test_segfault', segfault.causes[0].text)
    assert "in test_abort_in_thread" in ran.results[ids[4]].attempts[0].causes[0].text
    # What its call has shown before stays beside what its fixture did later.
    assert [(c.phase, str(c.verdict.kind)) for c in ran.results[ids[5]].attempts[0].causes] == [
        ("call", "failed"),
        ("process", "crashed"),
    ]
    assert f"CRASHED {ids[1]} - its process was ended by SIGSEGV" in ran.said


def test_restarts_are_bounded_and_the_rest_is_not_run(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import os, pytest
                @pytest.mark.parametrize("n", range(4))
                def test_dies(n): os._exit(n)
            """,
            "tests/test_b.py": "def test_never(): pass",
        }
    )
    ids = tuple(f"tests/test_a.py::test_dies[{n}]" for n in range(4))
    ran = here.run(here.order(ids, ("tests/test_b.py::test_never",), restarts=1))
    assert list(ran.kinds.values()) == ["crashed", "crashed", "not_run", "not_run", "not_run"]
    assert ran.verdicts["tests/test_b.py::test_never"] == (
        "not_run(2 processes had died before it, and 1 may)"
    )
    assert ran.code == 1


def test_a_death_after_the_last_test_is_red_and_belongs_to_no_test(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import atexit, os
                def test_a(): atexit.register(os._exit, 7)
            """,
            "tests/test_b.py": """
                import os, pytest
                @pytest.fixture(scope="session")
                def engine():
                    yield
                    os.abort()
                def test_b(engine): pass
                def test_c(): pass
            """,
        }
    )
    at_exit = here.run(here.order(("tests/test_a.py::test_a",)))
    assert at_exit.kinds == {"tests/test_a.py::test_a": "passed"}
    assert at_exit.reading.faults == (
        (
            "process 1: crashed(its process ended with exit code 7 after pytest was done (with "
            "exit code 0))"
        ),
    )
    assert at_exit.code == 1
    # The teardown of the last test takes the session's fixtures down: that is where it died.
    ids = ("tests/test_b.py::test_b", "tests/test_b.py::test_c")
    session = here.run(here.order(ids), "again")
    assert session.kinds == {ids[0]: "passed", ids[1]: "crashed"}


def test_closed_descriptors_and_returning_children_do_no_harm(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    here = suite(
        {
            "tests/test_a.py": """
                import os
                def test_closes():
                    os.closerange(100, 1000)
                    taken = [os.open("/dev/null", os.O_WRONLY) for _ in range(300)]
                    print("still heard")
                def test_speaks(): print("and again")
                def test_child_returns():
                    if os.fork() == 0:
                        return
                    os.wait()
                def test_child_fails():
                    if os.fork() == 0:
                        raise AssertionError("only in the child")
                    os.wait()
                def test_last(): pass
            """
        }
    )
    names = ("closes", "speaks", "child_returns", "child_fails", "last")
    ids = tuple(f"tests/test_a.py::test_{name}" for name in names)
    ran = here.run(here.order(ids[:2], ids[2:]))
    returned = "failed(a child that it forked came back into pytest; the child was ended)"
    assert list(ran.verdicts.values()) == ["passed", "passed", returned, returned, "passed"]
    assert ran.written(ids[0]) == "still heard\n"
    assert ran.written(ids[1]) == "and again\n"
    assert [len(result.attempts) for result in ran.reading.results] == [1] * 5
