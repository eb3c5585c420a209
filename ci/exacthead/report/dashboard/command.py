"""The command ``dashboard``: bring the history up to date and write it as a folder of pages."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.history.database import open_history, rebuild, sync
from exacthead.history.folders import DASHBOARD, History
from exacthead.report.dashboard.build import build
from exacthead.report.words import plural
from exacthead.triage.known import load_known

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness


def dashboard(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Write the dashboard of all runs."""
    runs = harness.root / "runs"
    into = Path(arguments.out or runs / DASHBOARD).absolute()
    known = load_known(harness.root)
    history = History(runs)
    if arguments.rebuild:
        rebuild(history, harness.root)
    with closing(open_history(runs)) as database:
        added = sync(database, history, harness.root)
        page = build(
            database,
            into,
            runs_address=_address(arguments.runs_address, runs, into),
            known=known,
            last=arguments.last,
        )
    for note in history.notes:
        console.out(f"exacthead: {note}")
    console.out(f"exacthead: {plural(len(added), 'run')} taken into the history")
    console.out(f"exacthead: dashboard {page}")
    return 0


def _address(asked: str | None, runs: Path, into: Path) -> str:
    """Where the pages find the runs: as asked, or where they lie now; empty for no links."""
    return os.path.relpath(runs, into) if asked is None else asked
