"""The plugin that only collects, for the plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from exacthead.units.inside.collecting import Collecting
    from exacthead.units.inside.dumps import Dumps
    from exacthead.units.inside.selection import Selection
    from exacthead.units.inside.stream import Stream

    Report = pytest.TestReport | pytest.CollectReport


def _absolute(paths: Iterable[str] | None) -> list[str]:
    return [os.path.abspath(path) for path in paths or ()]  # noqa: PTH100 - of patterns too


class Gathering:
    """Streams the ids of everything that pytest collects.

    Args:
        stream: where events go.
        collecting: streams the course of it.
        selection: what to leave out.
        dumps: where it stands.
        prepare: joins pytest's options with the selection, or refuses them.
        text_of: the long form of a report.
    """

    def __init__(  # noqa: PLR0913 - its parts are loaded by path and handed in
        self,
        *,
        stream: Stream,
        collecting: Collecting,
        selection: Selection,
        dumps: Dumps,
        prepare: Callable[[pytest.Config, Selection], None],
        text_of: Callable[[Report], str],
    ) -> None:
        self._stream, self._collecting, self._selection = stream, collecting, selection
        self._dumps, self._prepare, self._text_of = dumps, prepare, text_of
        self._deselected: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Look at the options before anything acts on them."""
        self._prepare(config, self._selection)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Be ready for crashes, say where node ids begin."""
        config.pluginmanager.register(self._collecting)
        self._dumps.arm()
        self._stream.write(
            "start",
            pytest=pytest.__version__,
            rootdir=str(config.rootpath),
            inifile=str(config.inipath or ""),
            ignore=_absolute(config.option.ignore),
            ignore_globs=_absolute(config.option.ignore_glob),
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
        self._deselected.update(item.nodeid for item in items)
        files = sorted({item.nodeid.split("::", 1)[0] for item in items})
        self._stream.write("deselected", tests=len(items), files=files)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Tell what others take away and do not call deselected."""
        before = dict.fromkeys(item.nodeid for item in items)
        yield
        kept = {item.nodeid for item in items} | self._deselected
        if gone := [nodeid for nodeid in before if nodeid not in kept]:
            self._stream.write("dropped", nodeids=gone)

    def pytest_internalerror(self, excrepr: object) -> None:
        """Keep pytest's own crash."""
        self._stream.write("internal", text=str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep why pytest was interrupted."""
        reason = f"{excinfo.typename}: {excinfo.value}".removesuffix(": ")
        self._stream.write("interrupt", reason=reason)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, None, None]:
        """Stream the ids in pytest's order, but only of a collection that came to its end.

        pytest's hook for the end is called after an interruption too.
        """
        outcome: Any = yield
        if outcome.excinfo is None:
            self._stream.write("tests", nodeids=[item.nodeid for item in session.items])
        elif not isinstance(outcome.excinfo[1], pytest.UsageError):  # pytest prints that one
            error = outcome.excinfo[1]
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            self._stream.write("interrupt", reason=reason)
