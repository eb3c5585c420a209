"""The plugin that runs what the driver hands out and streams what becomes of it."""

from __future__ import annotations

import os
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from exacthead.units.inside.channel import Channel
    from exacthead.units.inside.dumps import Dumps
    from exacthead.units.inside.output import Output
    from exacthead.units.inside.selection import Selection
    from exacthead.units.inside.stream import Stream

    Report = pytest.TestReport | pytest.CollectReport

# A forked child that comes back into pytest ends here, before it reports anything twice.
_RETURNED_CHILD = 70
_PHASES = frozenset({"setup", "call", "teardown"})


def refuse_foreign_runners(config: pytest.Config) -> None:
    """Refuse options under which someone else would run the tests, or nobody.

    Raises:
        pytest.UsageError: naming the option.
    """
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


def select(config: pytest.Config, selection: Selection) -> None:
    """Join pytest's root and arguments with what is planned."""
    selection.root(config.rootpath)
    config.args = selection.arguments(config.args, config.invocation_params.dir)


class Collecting:
    """Streams what collection does, so that a crash or hang in it has a file to its name."""

    def __init__(self, stream: Stream, output: Output, reason_of: Callable[[Report], str]) -> None:
        self._stream = stream
        self._output = output
        self._reason_of = reason_of

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, None, None]:
        """Say which file is being collected: that is when it is imported."""
        told = not isinstance(collector, (pytest.Session, pytest.Class))
        if told:
            self._stream.write("collecting", file=collector.nodeid, at=monotonic())
        yield
        if told:
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


class Running:
    """Runs the groups that the driver hands out, one item behind, as pytest-xdist does.

    An item is told which one comes next, so that pytest keeps the fixtures that both use. At the
    end of a group that is not known for sure when other processes take groups too; then the item
    is told the candidate that shares the least with it: what is kept fits whichever comes.

    Args:
        stream: where events go.
        channel: whom to ask for work.
        lost: the error that says that nobody can be asked.
        selection: what is planned.
        groups: node ids by group; the driver names groups by their position.
        output: what tests write.
        dumps: where they stand.
        reason_of: the one-line reason of a report.
        text_of: its long form.
    """

    def __init__(  # noqa: PLR0913 - modules loaded by path cannot import each other
        self,
        *,
        stream: Stream,
        channel: Channel,
        lost: type[Exception],
        selection: Selection,
        groups: list[list[str]],
        output: Output,
        dumps: Dumps,
        reason_of: Callable[[Report], str],
        text_of: Callable[[Report], str],
    ) -> None:
        self._stream, self._channel, self._lost = stream, channel, lost
        self._selection, self._groups = selection, groups
        self._output, self._dumps = output, dumps
        self._reason_of, self._text_of = reason_of, text_of
        self._collecting = Collecting(stream, output, reason_of)
        self._items: dict[str, pytest.Item] = {}
        self._current = ""
        self._seconds = 0.0
        self._passed: list[str] = []
        self._properties: list[tuple[str, object]] = []
        self._files: dict[str, int] = {}
        self._exit = os._exit

    # Start and collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Look at the options before anything acts on them."""
        refuse_foreign_runners(config)
        if config.option.collectonly:
            raise pytest.UsageError("--collect-only runs nothing; leave it out of the arguments")
        select(config, self._selection)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Join the capture, be ready for crashes."""
        config.pluginmanager.register(self._collecting)
        self._files = self._output.attach(config)
        self._dumps.arm()
        self._stream.write(
            "start",
            pid=os.getpid(),
            at=monotonic(),
            pytest=pytest.__version__,
            rootdir=str(config.rootpath),
            capture=config.getoption("capture"),
            output_from="capture" if self._files else "log",
        )

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Stay ready for a crash at exit; pytest's own fault handler was just taken down."""
        self._dumps.arm()

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Any) -> bool | None:
        """Leave out what holds no planned test."""
        return True if self._selection.leaves_out(collection_path) else None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file has no tests."""
        if report.passed:
            return
        known = self._selection.skipped if report.skipped else self._selection.failed
        known[report.nodeid] = self._reason_of(report)
        self._collecting.report(report, self._text_of(report))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Keep who was deselected."""
        self._selection.deselected.update(item.nodeid for item in items)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep exactly the planned tests, in their order, after everyone else had their say."""
        yield
        found: dict[str, pytest.Item] = {}
        for item in items:
            found.setdefault(item.nodeid, item)
        self._items = {id_: found[id_] for id_ in self._selection.planned if id_ in found}
        rest = [item for item in items if self._items.get(item.nodeid) is not item]
        items[:] = self._items.values()
        if rest:
            already = set(self._selection.deselected)
            config.hook.pytest_deselected(items=rest)
            self._selection.deselected = already

    # The loop

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run groups until the driver has no more."""
        self._stream.write("ready", at=monotonic(), tests=len(self._items))
        queue = self._take()
        while queue:
            item = queue.popleft()
            self._run(item, queue[0] if queue else self._candidate(item))
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            queue = queue or self._take()
        return True

    def _take(self) -> deque[pytest.Item]:
        """The items of the next group that has any; empty when there is no more."""
        while True:
            try:
                group = self._channel.ask("group", files=self._files)["group"]
            except self._lost as error:
                self._stream.write("disconnected", reason=str(error))
                return deque()
            if group is None:
                return deque()
            self._stream.write("group", group=group)
            queue = deque(self._items[id_] for id_ in self._groups[group] if id_ in self._items)
            for nodeid in self._groups[group]:
                if self._selection.told(nodeid):
                    self._stream.write("told", test=nodeid)
                elif nodeid not in self._items:
                    kind, reason = self._selection.missing(nodeid)
                    self._stream.write("missing", test=nodeid, kind=kind, reason=reason)
            if queue:
                return queue

    def _candidate(self, item: pytest.Item) -> pytest.Item | None:
        """Of the items that may come next, the one that shares the fewest ancestors with this."""
        try:
            rest = self._channel.ask("rest")["rest"]
        except self._lost:
            return None  # the next question finds out again, and says so
        chain = item.listchain()
        best: tuple[int, pytest.Item] | None = None
        for group in rest:
            head = next((id_ for id_ in self._groups[group] if id_ in self._items), None)
            if head is not None:
                shared = _shared(chain, self._items[head].listchain())
                if best is None or shared < best[0]:
                    best = shared, self._items[head]
                if shared == 1:
                    break
        return best[1] if best else None

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._current, self._seconds = item.nodeid, 0.0
        self._passed, self._properties = [], []
        self._dumps.arm()
        self._stream.write("begin", test=item.nodeid, at=monotonic())
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        except BaseException as error:
            self._end_child()
            self._output.flush(item.nodeid, "process")
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            if isinstance(error, pytest.exit.Exception):
                reason = f"pytest.exit: {error}"
                self._stream.write("stopped", reason=f"{item.nodeid} called {reason}")
            self._stream.write("broken", test=item.nodeid, reason=reason)
            raise
        self._end_child()
        self._stream.write(
            "end",
            test=item.nodeid,
            seconds=self._seconds,
            passed=self._passed,
            **({"properties": _as_text(self._properties)} if self._properties else {}),
        )

    def _end_child(self) -> None:
        if self._stream.forked:
            self._stream.write_as_child("forked", test=self._current)
            self._exit(_RETURNED_CHILD)

    # Reports

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


def _shared(one: list[Any], other: list[Any]) -> int:
    """How many ancestors two items have in common."""
    count = 0
    for mine, theirs in zip(one, other):  # noqa: B905 - strict= came with Python 3.10
        if mine is not theirs:
            break
        count += 1
    return count


def _as_text(properties: list[tuple[str, object]]) -> dict[str, str]:
    return {str(name): str(value) for name, value in properties}
