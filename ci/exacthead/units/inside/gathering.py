"""The plugin that only collects, for the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.units.inside.collecting import Collecting
    from exacthead.units.inside.selection import Selection
    from exacthead.units.inside.stream import Stream

    Report = pytest.TestReport | pytest.CollectReport


class Gathering:
    """Streams the ids of everything that pytest collects.

    Args:
        stream: where events go.
        collecting: streams the course of it.
        selection: what to leave out.
        prepare: joins pytest's options with the selection, or refuses them.
        text_of: the long form of a report.
    """

    def __init__(
        self,
        *,
        stream: Stream,
        collecting: Collecting,
        selection: Selection,
        prepare: Callable[[pytest.Config, Selection], None],
        text_of: Callable[[Report], str],
    ) -> None:
        self._stream, self._collecting, self._selection = stream, collecting, selection
        self._prepare, self._text_of = prepare, text_of

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Look at the options before anything acts on them."""
        self._prepare(config, self._selection)

    def pytest_configure(self, config: pytest.Config) -> None:
        """Say where node ids begin."""
        config.pluginmanager.register(self._collecting)
        self._stream.write(
            "start",
            pytest=pytest.__version__,
            rootdir=str(config.rootpath),
            inifile=str(config.inipath or ""),
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: object) -> bool | None:
        """Leave out what ended an earlier attempt."""
        return True if self._selection.leaves_out(collection_path) else None  # type: ignore[arg-type] # pytest 7 and 9 differ in its type

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Stream what has no tests."""
        if not report.passed:
            self._collecting.report(report, self._text_of(report))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Say how many the options deselect."""
        self._stream.write("deselected", tests=len(items))

    def pytest_internalerror(self, excrepr: object) -> None:
        """Keep pytest's own crash."""
        self._stream.write("internal", text=str(excrepr))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Stream the ids, in pytest's order."""
        self._stream.write("tests", nodeids=[item.nodeid for item in session.items])
