"""The commands that run unit suites, and those that keep what such a run has shown."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.commands import chosen_runner, invocation
from exacthead.equip import check_machine, open_store, resolve_all
from exacthead.errors import HarnessError
from exacthead.head import read_head
from exacthead.images.where import in_images, placed, used, wanted
from exacthead.judgement import judgement
from exacthead.measured import keep_maps
from exacthead.plan import make_plan
from exacthead.session import Session
from exacthead.shards.record import record_run
from exacthead.suite_items import Wish, read_arguments, read_shard_option
from exacthead.suite_plan import Planning, planned
from exacthead.suites import check_orphans, choose, suite_workers

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

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
    with _suites(harness, arguments, wish, console, arguments.base) as session:
        return replace(session, gate=gate, notify=arguments.notify).run()


def impact(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Run unit suites with each line told apart by test, and keep what that says as their map."""
    if read_head(harness.root).dirty:
        todo = "commit first: what changed since then is asked of git"
        raise HarnessError("impact", "the checkout is no commit", todo)
    with _suites(harness, arguments, Wish(contexts=True, processes=1), console) as session:
        folder = session.new_folder()
        code = session.run_in(folder)
        for line in keep_maps(harness, session.plan, folder):
            session.say(line)
        return code


@contextmanager
def _suites(
    harness: Harness, arguments: Namespace, wish: Wish, console: Console, base: str = ""
) -> Iterator[Session]:
    """A session for the suites that are asked for, with its workers ready and held."""
    check_orphans(harness)
    suites = choose(harness, arguments.suite)
    name, runner = chosen_runner(harness, arguments.runner)
    store = open_store(harness.root)
    workers = suite_workers(harness, suites)
    check_machine(harness, workers, arguments.flavour, store)
    specs = resolve_all(harness, workers, arguments.flavour)
    head, runs = read_head(harness.root), harness.root / "runs"
    known = judgement(harness.root, runs, name, head, base)

    def say(line: str) -> None:
        console.out(f"exacthead: {line}")

    asked = wanted(arguments)
    with (
        ExitStack() as held,
        planned(Planning(harness, specs, store, runner, wish, say), suites) as made,
    ):
        images = None
        if asked:
            # What runs is decided by now, in the workers of this machine, whatever the image.
            running = [item for item in made.items if item.settled is None]
            images = held.enter_context(
                placed(harness, running, asked, flavour=arguments.flavour, runner=runner, say=say)
            )
            specs = {**specs, **used(images, images.specs)}
        plan = make_plan(
            head,
            made.items,
            specs,
            runner=name,
            flavour=arguments.flavour,
            invocation=invocation(),
            images=images.images if images else None,
        )
        session = Session(
            harness,
            plan,
            specs,
            store,
            console,
            runs,
            known,
            held=made.workers,
            logs=made.logs,
            base=base,
        )
        yield in_images(session, images)


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
