"""The command ``dashboard``: bring the history up to date and write it as a folder of pages."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.history.database import open_history, rebuild, sync
from exacthead.report.dashboard.build import build
from exacthead.triage.known import load_known

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness

FOLDER = "dashboard"


def dashboard(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Write the dashboard of all runs."""
    runs = harness.root / "runs"
    into = Path(arguments.out or runs / FOLDER).absolute()
    known = load_known(harness.root)
    if arguments.rebuild:
        rebuild(runs, harness.root)
    with closing(open_history(runs)) as history:
        synced = sync(history, runs, harness.root)
        for note in synced.notes:
            console.out(f"exacthead: {note}")
        page = build(
            history,
            into,
            runs_address=_address(arguments.runs_address, runs, into),
            known=known,
            last=arguments.last,
        )
    console.out(f"exacthead: {len(synced.added)} runs are new in the history")
    console.out(f"exacthead: dashboard {page}")
    return 0


def _address(asked: str | None, runs: Path, into: Path) -> str:
    """Where the pages find the runs: as asked, or where they lie now; empty for no links."""
    return os.path.relpath(runs, into) if asked is None else asked
