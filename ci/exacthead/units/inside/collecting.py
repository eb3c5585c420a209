"""What happens while pytest collects: options are checked, each file is told as it comes."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from exacthead.units.inside.output import Output
    from exacthead.units.inside.selection import Selection
    from exacthead.units.inside.stream import Stream

    Report = pytest.TestReport | pytest.CollectReport


def prepare(config: pytest.Config, selection: Selection) -> None:
    """Join pytest's root and arguments with what is planned.

    Raises:
        pytest.UsageError: an option by which someone else would run the tests, or nobody.
    """
    _refuse_other_runners(config)
    selection.root(config.rootpath)
    config.args = selection.arguments(config.args, config.invocation_params.dir)


def _refuse_other_runners(config: pytest.Config) -> None:
    option = config.option
    processes = getattr(option, "numprocesses", None)
    if processes or getattr(option, "dist", "no") not in {"no", None}:
        raise pytest.UsageError(
            f"pytest-xdist's -n {processes} would run the tests in processes that the harness does "
            "not see; it starts processes itself (-j). Add '-n', '0' to the suite's arguments"
        )
    for name, shown in (("usepdb", "--pdb"), ("looponfail", "--looponfail")):
        if getattr(option, name, False):
            raise pytest.UsageError(f"{shown} needs a terminal; a shard has none. Leave it out")


class Collecting:
    """Streams what collection does, so that a crash or hang in it has a file to its name."""

    def __init__(
        self,
        stream: Stream,
        output: Output,
        reason_of: Callable[[Report], str],
        one_line: Callable[[str], str],
    ) -> None:
        self._stream = stream
        self._output = output
        self._reason_of, self._one_line = reason_of, one_line

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, None, None]:
        """Say which file is being collected: that is when it is imported."""
        told = not isinstance(collector, (pytest.Session, pytest.Class))
        if told:
            self._stream.write("collecting", file=collector.nodeid, at=monotonic())
        outcome: Any = yield
        if outcome.excinfo is not None and not isinstance(collector, pytest.Session):
            # KeyboardInterrupt, SystemExit: pytest ends, and does not say where it came from.
            error = outcome.excinfo[1]
            reason = f"it ended pytest: {type(error).__name__}: {error}".removesuffix(": ")
            file = collector.nodeid.split("::", 1)[0]
            self._stream.write("uncollectable", file=file, reason=self._one_line(reason))
        elif told:
            self._stream.write("collected", file=collector.nodeid)
        self._output.flush(collector.nodeid, "collection")

    def report(self, report: pytest.CollectReport, text: str) -> None:
        """Stream a collector that failed or skipped itself."""
        if not report.nodeid:  # the session itself: pytest 7 does so for any broken conftest
            reason = f"nothing was collected: {self._reason_of(report)}"
            self._stream.write("fault", phase="collection", reason=reason, text=text)
            return
        self._stream.write(
            "file",
            file=report.nodeid,
            outcome=report.outcome,
            reason=self._reason_of(report),
            text=text,
        )
