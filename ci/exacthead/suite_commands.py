"""The commands that run unit suites, and those that keep what such a run has shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.images.where import wanted
from exacthead.measured import keep_maps
from exacthead.opening import Opening, opened
from exacthead.pace import read_pace
from exacthead.selection import Asked
from exacthead.shards.record import record_run
from exacthead.wish import Wish, read_arguments, read_shard_option

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from exacthead.config import Harness


def unit(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run unit suites, whole or in shards."""
    wish = Wish(
        shard=read_shard_option(arguments.shard) if arguments.shard else None,
        shards=arguments.shards,
        processes=arguments.processes,
        retries=arguments.retries,
        strict=arguments.strict,
        arguments=read_arguments(arguments.pytest),
        coverage=arguments.coverage and bool(harness.coverage.sources),
        changed_since=arguments.changed_since,
    )
    gate = _gate(harness, arguments, wish)
    with opened(_opening(harness, arguments, wish, console, arguments.base)) as session:
        return replace(session, gate=gate).run()


def impact(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run unit suites with each line told apart by test, and keep what that says as their map."""
    if read_head(harness.root).dirty:
        todo = "commit first: what changed since then is asked of git"
        raise HarnessError("impact", "the checkout is no commit", todo)
    wish = Wish(contexts=True, processes=1)
    with opened(_opening(harness, arguments, wish, console)) as session:
        folder = session.new_folder()
        code = session.run_in(folder)
        for line in keep_maps(harness, session.plan, folder):
            session.say(line)
        return code


def _opening(
    harness: Harness, arguments: Namespace, wish: Wish, console: Console, base: str = ""
) -> Opening:
    """What is asked of the suites."""
    return Opening(
        harness,
        Asked(suites=tuple(arguments.suite), kinds=("suite",), sharded=wish.shard is not None),
        wish,
        console,
        flavour=arguments.flavour,
        runner_name=arguments.runner or "",
        wanted=wanted(arguments),
        base=base,
        pace=read_pace(arguments),
        notify=arguments.notify,
        required=arguments.required,
    )


def record(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Take the times of a run's tests into the recorded durations."""
    path = harness.root / harness.project.durations
    found = record_run(Path(arguments.run_folder), path, harness.root, whole=arguments.whole)
    left = ", ".join(f"{count} {why}" for why, count in sorted(found.left_out.items()))
    console.out(f"exacthead: {path}: {len(found.times)} times taken; left out: {left or 'none'}")
    return 0


def _gate(harness: Harness, arguments: Namespace, wish: Wish) -> bool:
    """Whether the change's coverage is judged.

    Raises:
        HarnessError: it is asked for, and there is nothing to judge or to compare with.
    """
    if not arguments.gate:
        return False
    if not arguments.base:
        raise HarnessError("--gate", "no --base", "name the branch that the change will go to")
    if not (harness.coverage.sources and wish.coverage):
        raise HarnessError(
            "--gate", "nothing is measured", "declare [coverage] sources, and leave out --no-cov"
        )
    return True
