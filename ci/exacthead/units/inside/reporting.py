"""What becomes of each test, streamed as pytest reports it."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from exacthead.units.inside.output import Output
    from exacthead.units.inside.stream import Stream

    Report = pytest.TestReport | pytest.CollectReport

# A forked child that comes back into pytest ends here, before it reports anything twice.
_RETURNED_CHILD = 70
_PHASES = frozenset({"setup", "call", "teardown"})


def _not_as_expected(report: pytest.TestReport) -> bool:
    """Whether a subtest that is called skipped is none that failed as its ``xfail`` says."""
    return getattr(report, "wasxfail", None) is None


class Reporting:
    """Streams phases, output and ends of tests, and what goes wrong outside of them.

    Args:
        stream: where events go.
        output: what tests write.
        reason_of: the one-line reason of a report.
        text_of: its long form.
    """

    def __init__(
        self,
        stream: Stream,
        output: Output,
        reason_of: Callable[[Report], str],
        text_of: Callable[[Report], str],
    ) -> None:
        self._stream, self._output = stream, output
        self._reason_of, self._text_of = reason_of, text_of
        self._current = ""
        self._seconds = 0.0
        self._passed: list[str] = []
        self._properties: list[tuple[str, object]] = []
        self._exit = os._exit

    def begin(self, test: str) -> None:
        """A test is about to run."""
        self._current, self._seconds = test, 0.0
        self._passed, self._properties = [], []
        self._stream.begin(test, monotonic())

    def end(self) -> None:
        """The test has run."""
        self._end_child()
        if self._properties:
            properties = {str(name): str(value) for name, value in self._properties}
            self._stream.write("properties", test=self._current, properties=properties)
        self._stream.end(self._current, self._seconds, self._passed)

    def broken(self, error: BaseException) -> None:
        """An error came out of the test's protocol; it will end pytest."""
        self._end_child()
        self._output.flush(self._current, "process")
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        if isinstance(error, pytest.exit.Exception):
            reason = f"pytest.exit: {error}"
            self._stream.write("stopped", reason=f"{self._current} called {reason}")
        self._stream.write("broken", test=self._current, reason=reason)

    def _end_child(self) -> None:
        if self._stream.forked:
            self._stream.write_as_child("forked", test=self._current)
            self._exit(_RETURNED_CHILD)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Every phase passes here, also those that a plugin runs without reporting them at once."""
        if not self._stream.forked:
            self._output.flush(item.nodeid, call.when)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Stream what is no plain pass; plain passes are told at the end, all at once."""
        self._end_child()
        part = getattr(report, "context", None)
        phase = str(report.when) if report.when in _PHASES else "process"  # a plugin's own word
        if part is not None:  # of a subtest, whose capture is its own
            for title, text in report.sections:
                name = "stderr" if "stderr" in title else "stdout"
                self._output.write(report.nodeid, phase, name, text)
            if report.skipped and _not_as_expected(report):
                reason = self._reason_of(report)
                self._stream.write("part_skipped", test=report.nodeid, reason=reason)
            if not report.failed:
                return
        else:
            self._seconds += report.duration
            self._properties = report.user_properties
        expected = getattr(report, "wasxfail", None)
        if report.passed and expected is None:
            self._passed.append(phase)
            return
        if report.passed:
            self._passed.append(phase)
        self._stream.write(
            "phase",
            test=report.nodeid,
            phase=phase,
            outcome=report.outcome,
            xfail=expected,
            reason="" if report.passed else self._reason_of(report),
            text=self._text_of(report) if report.failed else "",
        )

    def pytest_internalerror(self, excrepr: object) -> None:
        """Keep pytest's own crash."""
        self._stream.write("internal", text=str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep why the session was interrupted: Ctrl-C, or ``pytest.exit`` at any time."""
        reason = f"{excinfo.typename}: {excinfo.value}".removesuffix(": ")
        self._stream.write("interrupt", reason=reason)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Catch fixtures that fail when the session ends, after the last test."""
        self._stream.write("finishing", at=monotonic())
        if session.shouldfail or session.shouldstop:  # also when collection had enough
            self._stream.write("stopped", reason=str(session.shouldfail or session.shouldstop))
        outcome: Any = yield
        error = outcome.excinfo[1] if outcome.excinfo else None
        if error is not None:
            import traceback

            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            self._stream.write(
                "fault",
                phase="teardown",
                reason=f"at the end of the session: {type(error).__name__}: {error}",
                text=text,
            )
