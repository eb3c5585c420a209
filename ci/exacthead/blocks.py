"""Items that run at once, each shown as one block when it has ended; who runs, on a terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from exacthead.prefix import Prefixed
from exacthead.runs.echo import visible
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from exacthead.runs.result import ItemResult
    from exacthead.runs.watch import Watch

# Of a longer log the end is shown; all of it is in the file.
MOST = 1 << 20
_UNRUN = frozenset({Kind.NOT_RUN, Kind.SKIPPED})


class Blocks:
    """Gathers what logs grow by and shows each as a block under one line. Thread-safe.

    Where the reader is a person at a terminal, a table says which items run, for how long, and
    their last lines; then a block of a green item is its one line.
    """

    def __init__(self, console: Console, planned: int) -> None:
        self._console = console
        self._live = console.is_terminal
        self._planned = planned
        self._ended = 0
        self._red = 0
        self._running: dict[str, float] = {}
        self._logs: dict[str, str] = {}
        self._cut: dict[str, int] = {}
        self._lock = Lock()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The table, on a terminal, until the block ends."""
        if not self._live:
            yield
            return
        with Live(
            console=self._console, get_renderable=self._table, refresh_per_second=4, transient=True
        ):
            yield

    def begin(self, item_id: str) -> None:
        """An item is started."""
        with self._lock:
            self._running[item_id] = time.monotonic()

    def write(self, item_id: str, text: str) -> None:
        """Take what the log of an item grew by."""
        with self._lock:
            log = self._logs.get(item_id, "") + text
            cut = max(0, len(log) - MOST)
            self._cut[item_id] = self._cut.get(item_id, 0) + cut
            self._logs[item_id] = log[cut:]

    def end(self, result: ItemResult) -> None:
        """Show the item that has ended."""
        with self._lock:
            self._ended += 1
            self._red += not (result.verdict.green or result.verdict.kind in _UNRUN)
            self._running.pop(result.item_id, None)
            log, cut = self._logs.pop(result.item_id, ""), self._cut.pop(result.item_id, 0)
            # One call, so that no other item's lines come between.
            self._console.out("\n".join(self._block(result, log, cut)), highlight=False)

    def _block(self, result: ItemResult, log: str, cut: int) -> list[str]:
        verdict = result.verdict
        reason = f" ({' '.join(visible(verdict.reason).split())})" if verdict.reason else ""
        place = f"[{self._ended}/{self._planned}]"
        lines = [f"{place} {result.item_id}: {verdict.kind} in {result.seconds:.1f} s{reason}"]
        if log and not (self._live and verdict.green):
            lines += [f"... {cut} characters are only in its log ..."] if cut else []
            lines += [f"  | {line}" for line in log.removesuffix("\n").split("\n")]
        return lines

    def _table(self) -> Table:
        with self._lock:
            now = time.monotonic()
            waiting = self._planned - self._ended - len(self._running)
            title = f"{self._ended} ended, {self._red} of them red; {waiting} waiting"
            table = Table("item", "seconds", "last line", caption=title, caption_justify="left")
            for item_id, begun in self._running.items():
                last = self._logs.get(item_id, "").rstrip("\n").rpartition("\n")[2]
                line = Text(last, no_wrap=True, overflow="ellipsis")
                table.add_row(Text(item_id), f"{now - begun:.0f}", line)
            return table


@contextmanager
def watching(console: Console, planned: int, *, at_once: bool) -> Iterator[Watch]:
    """What shows the items of a run while the block runs.

    Args:
        console: where.
        planned: how many there are.
        at_once: whether several may run at a time; the log of a single one is shown as it grows.
    """
    if not at_once:
        yield Prefixed(sys.stdout)
        return
    blocks = Blocks(console, planned)
    with blocks.shown():
        yield blocks
