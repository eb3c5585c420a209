"""The commands that a CI service calls around the items, and a person after it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from exacthead.options.shared import add_notify

if TYPE_CHECKING:
    from types import ModuleType

    from exacthead.options.shared import Add


def add_services(add: Add) -> None:
    """Add them."""
    merge = add("merge", _merging, "Merge run folders of one plan into one run.")
    merge.add_argument("--plan", metavar="FILE", required=True, help="what was expected")
    merge.add_argument(
        "--onto", metavar="RUN", default="", help="the run that this retries; its plan is expected"
    )
    merge.add_argument("folders", metavar="FOLDER", nargs="+", help="run folders, or around them")
    add_notify(merge)

    retry = add("retry", _merging, "Run what was not green in a run again; merge both.")
    retry.add_argument("run_folder", metavar="RUN")
    add_notify(retry)

    workflows = add("workflows", _workflows, "Generate the files of CI services.")
    does = workflows.add_mutually_exclusive_group()
    does.add_argument("--check", action="store_true", help="only say which are stale")
    does.add_argument("--matrix", metavar="PLAN", help="tell GitHub the items of a plan")
    does.add_argument(
        "--child", nargs=2, metavar=("PLAN", "FILE"), help="write GitLab's pipeline of a plan"
    )

    add("trust", _trust, "Which commit may run: an outside one only if vouched for.")

    pages = add("dashboard", _dashboard, "Write all runs as static pages.")
    pages.add_argument("--out", metavar="FOLDER", default="", help="default: runs/dashboard")
    pages.add_argument(
        "--last", metavar="N", type=_count, default=200, help="the newest N runs; default: 200"
    )
    pages.add_argument(
        "--runs-address", metavar="URL", help="of the runs, relative to FOLDER; '' for no links"
    )
    pages.add_argument("--rebuild", action="store_true", help="the history too, from the runs")


def _merging() -> ModuleType:
    from exacthead.merge import command

    return command


def _workflows() -> ModuleType:
    from exacthead.workflows import command

    return command


def _trust() -> ModuleType:
    from exacthead import trust

    return trust


def _dashboard() -> ModuleType:
    from exacthead.report.dashboard import command

    return command


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of runs; give 1 or more")
    return value
