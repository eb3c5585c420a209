"""The plugin that runs what the driver hands out."""

from __future__ import annotations

import os
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from exacthead.units.inside.channel import Channel
    from exacthead.units.inside.collecting import Collecting
    from exacthead.units.inside.dumps import Dumps
    from exacthead.units.inside.output import Output
    from exacthead.units.inside.reporting import Reporting
    from exacthead.units.inside.selection import Selection
    from exacthead.units.inside.stream import Stream

    Report = pytest.TestReport | pytest.CollectReport


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
        collecting: streams collection.
        reporting: streams what becomes of tests.
        prepare: joins pytest's options with the selection.
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
        collecting: Collecting,
        reporting: Reporting,
        prepare: Callable[[pytest.Config, Selection], None],
        reason_of: Callable[[Report], str],
        text_of: Callable[[Report], str],
    ) -> None:
        self._stream, self._channel, self._lost = stream, channel, lost
        self._selection, self._groups = selection, groups
        self._output, self._dumps = output, dumps
        self._collecting, self._reporting, self._prepare = collecting, reporting, prepare
        self._reason_of, self._text_of = reason_of, text_of
        self._items: dict[str, pytest.Item] = {}
        self._files: dict[str, int] = {}

    # Start and collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Look at the options before anything acts on them."""
        self._prepare(config, self._selection)
        if config.option.collectonly:
            raise pytest.UsageError("--collect-only runs nothing; leave it out of the arguments")

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Join the capture, be ready for crashes."""
        config.pluginmanager.register(self._collecting)
        config.pluginmanager.register(self._reporting)
        self._files = self._output.attach(config)
        self._dumps.arm()
        self._stream.write(
            "start",
            pid=os.getpid(),
            at=monotonic(),
            pytest=pytest.__version__,
            rootdir=str(config.rootpath),
            capture=config.getoption("capture", None),
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
        for file, more in self._selection.unplanned(item.nodeid for item in rest).items():
            reason = (
                f"{file} has {len(more)} test(s) that the plan does not know, as {more[0]}; do "
                "they depend on the environment, the time or chance?"
            )
            self._stream.write("fault", phase="collection", reason=reason, text="\n".join(more))
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
        self._dumps.arm()
        self._reporting.begin(item.nodeid)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        except BaseException as error:
            self._reporting.broken(error)
            raise
        self._reporting.end()


def _shared(one: list[Any], other: list[Any]) -> int:
    """How many ancestors two items have in common."""
    count = 0
    for mine, theirs in zip(one, other):  # noqa: B905 - strict= came with Python 3.10
        if mine is not theirs:
            break
        count += 1
    return count
