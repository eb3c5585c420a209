"""The commands that run items, and what they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.options.shared import add_machine, add_notify, add_place
from exacthead.pace import add_pace

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from types import ModuleType

    from exacthead.options.shared import Add


def add_runs(add: Add) -> None:
    """Add them."""
    _functional(add("functional", _jobs, "Run the legs of a functional job."))
    _unit(add("unit", _suites, "Run unit suites, each in its own worker."))
    plan = add("plan", _plans, "Show what would run, where, and why.")
    run = add("run", _plans, "Run what `plan` shows for the same options.")
    _plan(plan, run)

    impact = add("impact", _suites, "Run unit suites and map tests to what they run.")
    impact.add_argument("--suite", action="append", default=[], help="only this; may be repeated")
    impact.set_defaults(where="here", image="", reuse="", dirty=False, base_image="")
    impact.set_defaults(required=False)
    add_machine(impact)
    _items(impact)

    record = add("record", _suites, "Take the times of a run into the durations.")
    record.add_argument("run_folder", metavar="RUN")
    record.add_argument("--whole", action="store_true", help="forget tests that are gone")

    _reproduce(add("reproduce", _jobs, "Run one item of an earlier run again, or its rest."))


def _jobs() -> ModuleType:
    from exacthead import commands

    return commands


def _suites() -> ModuleType:
    from exacthead import suite_commands

    return suite_commands


def _plans() -> ModuleType:
    from exacthead import plan_command

    return plan_command


def _items(parser: ArgumentParser) -> None:
    """What is asked of a run of several items."""
    add_pace(parser)
    add_notify(parser)


def _required(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--required", action="store_true", help="whatever is not green is red, required or not"
    )


def _functional(job: ArgumentParser) -> None:
    job.add_argument("job")
    job.add_argument("--leg", action="append", default=[], help="only this leg; may be repeated")
    _required(job)
    _items(job)
    add_place(job)


def _unit(unit: ArgumentParser) -> None:
    unit.add_argument("--suite", action="append", default=[], help="only this one; may be repeated")
    unit.add_argument("--shard", metavar="K/N", help="only part K of N of each suite")
    unit.add_argument("--shards", metavar="N", type=int, help="all N parts of each suite, in turn")
    unit.add_argument("-j", "--processes", metavar="N", type=int, help="pytest processes at once")
    unit.add_argument("--retries", metavar="N", type=int, default=0, help="at most 2, fresh each")
    unit.add_argument("--strict", action="store_true", help="what is skipped is red")
    unit.add_argument(
        "--pytest", metavar="ARGS", action="append", default=[], help="for pytest: --pytest=--lf"
    )
    unit.add_argument("--no-cov", dest="coverage", action="store_false", help="measure nothing")
    unit.add_argument(
        "--changed-since", metavar="REV", default="", help="only what changes since can reach"
    )
    unit.add_argument("--base", metavar="REV", default="", help="compare faults with its results")
    unit.add_argument("--gate", action="store_true", help="lines changed since --base must run")
    _required(unit)
    _items(unit)
    add_place(unit)


def _plan(plan: ArgumentParser, run: ArgumentParser) -> None:
    plan.add_argument(
        "--json", metavar="FILE", default="", help="the plan as JSON too; - for nothing else"
    )
    for added in (plan, run):
        for name in ("level", "job", "suite", "leg"):
            added.add_argument(
                f"--{name}", action="append", default=[], help=f"only this {name}; may be repeated"
            )
        added.add_argument("--shard", metavar="K/N", help="only part K of N of each suite; no legs")
        added.add_argument(
            "--changed-since", metavar="REV", default="", help="only what changes since can reach"
        )
        added.add_argument(
            "--only-failed-of", metavar="RUN", default="", help="only what was not green then"
        )
        add_place(added)
    _required(run)
    _items(run)


def _reproduce(again: ArgumentParser) -> None:
    again.add_argument("item", metavar="RUN/ITEM", nargs="?", help="a run and an item's id")
    again.add_argument("--resume", metavar="RUN", help="what has no verdict there, same plan")
    again.add_argument(
        "--until-fail", metavar="N", type=int, default=1, help="repeat up to N times"
    )
    again.add_argument("--bisect-order", metavar="TEST", help="which earlier tests make it fail")
    _items(again)
