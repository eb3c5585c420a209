"""Planning suites: each is collected in its own worker and divided into items of its own."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.equip import BUILD_DEADLINE_S, ready
from exacthead.errors import HarnessError
from exacthead.impact.map import read_map
from exacthead.impact.select import select_since
from exacthead.plan import python_variable, seeded
from exacthead.runs.isolation import isolated_environment, private_folder
from exacthead.shards import durations
from exacthead.suite_items import (
    Found,
    pytest_arguments,
    repeated_items,
    settled_item,
    shard_items,
    skipped,
    unread_items,
)
from exacthead.suites import Belonging, suite_workers, unmet, unmet_in_containers
from exacthead.tables import OWN_ROLE
from exacthead.units.absent import absent
from exacthead.units.collect import collect
from exacthead.units.kept import Kept
from exacthead.units.kept import read as read_kept
from exacthead.units.kept import write as keep
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.head import Head
    from exacthead.plan import Item
    from exacthead.shards.durations import Durations
    from exacthead.tables import Runner, Suite
    from exacthead.units.collect import Collected
    from exacthead.units.shard import Shard
    from exacthead.wish import Wish
    from exacthead.workers.spec import Spec
    from exacthead.workers.store import Built, Store


@dataclass(frozen=True)
class Planned:
    """What is to be run, and the workers that are ready for it and held until the block ends.

    Attributes:
        items: in the order they run.
        workers: by name.
        logs: item id -> what collecting wrote, where that settled the item.
        broken: worker -> why it could not be made ready.
    """

    items: tuple[Item, ...]
    workers: Mapping[str, Built]
    logs: Mapping[str, str]
    broken: Mapping[str, str] = field(default_factory=dict)

    def behind(self, legs: Iterable[Item]) -> tuple[Item, ...]:
        """Legs that run in the same session; one without its workers is not run."""
        return tuple(
            replace(leg, settled=Verdict(Kind.NOT_RUN, "; ".join(problems)))
            if (problems := [self.broken[w] for w in leg.workers.values() if w in self.broken])
            else leg
            for leg in legs
        )


@dataclass(frozen=True)
class Planning:
    """What planning needs: declarations, specs by worker name, store, runner, wish, voice, head.

    ``again`` are the shards of an earlier run that suites repeat; ``elsewhere`` is whether another
    machine runs them, ``inside`` whether images do. It keeps in ``logs`` what a collection wrote
    that went wrong, by item id.
    """

    harness: Harness
    specs: dict[str, Spec]
    store: Store
    runner: Runner
    wish: Wish
    say: Callable[[str], None]
    head: Head
    again: Mapping[str, tuple[Shard, ...]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    inside: bool = False

    @cached_property
    def belonging(self) -> Belonging:
        """Which test files belong to which suite."""
        return Belonging(self.harness)

    def equip(self, held: ExitStack) -> tuple[dict[str, Built], dict[str, str]]:
        """The workers that could be made ready, and why the others could not."""
        workers: dict[str, Built] = {}
        broken: dict[str, str] = {}
        for name, spec in self.specs.items():
            try:
                workers |= held.enter_context(
                    ready(self.harness, {name: spec}, self.store, self.say)
                )
            except HarnessError as error:
                self.say(str(error))
                broken[name] = f"worker {name} is not ready: {error.found}"
        return workers, broken

    def there(self) -> dict[str, Built]:
        """The workers that are ready by now; none is built."""
        found = {}
        for name, spec in self.specs.items():
            record = None if spec.provided else self.store.find(spec.key)
            if spec.provided or (record and record.state == "ready"):
                found[name] = self.store.ensure(spec, deadline_s=BUILD_DEADLINE_S)
        return found

    def items(
        self, name: str, workers: Mapping[str, Built], history: Durations, *, fresh: bool
    ) -> tuple[Item, ...]:
        """The items of one suite; where its tests are not known for want of a worker, only that.

        What a suite selects is the same in an image, also where no container has what it needs.
        """
        items = self._selected(name, workers, history, fresh=fresh)
        missing = unmet_in_containers(self.harness.suite(name)) if self.inside else ()
        if not missing:
            return items
        words, strict = f"needs what is not here: {'; '.join(missing)}", self.wish.strict
        left = (each if each.settled else skipped(each, words, strict=strict) for each in items)
        return tuple(left)

    def _selected(
        self, name: str, workers: Mapping[str, Built], history: Durations, *, fresh: bool
    ) -> tuple[Item, ...]:
        suite = self.harness.suite(name)
        own = workers.get(suite.worker)
        place = self.kept(name)
        collected = None if fresh else read_kept(place)
        missing = self.unmet(suite, own, workers)
        if missing:
            words = f"needs what is not here: {'; '.join(missing)}"
            return (self.settled(name, Verdict(Kind.SKIPPED, words)),)
        if collected is None and own is not None:
            with self.environment(suite, workers) as environment:
                arguments = pytest_arguments(suite, self.wish)
                root, paths = self.harness.root, suite.paths
                collected = collect(
                    own.python, root, paths, arguments, environment, suite.timeout_s
                )
            keep(place, collected)
        if collected is None:
            note = f"its tests are known once worker {suite.worker} is built"
            return unread_items(name, suite, self.wish, note, self.again.get(name, ()))
        fault = _fault(collected)
        if fault:
            item = self.settled(name, Verdict(Kind.FAILED, fault))
            self.logs[item.id] = collected.log
            return (item,)
        found = self.chosen(name, collected)
        self.say(f"suite {name}: {len(found.nodeids)} tests")
        if earlier := self.again.get(name):
            return repeated_items(name, suite, found, earlier, self.wish)
        return shard_items(name, suite, found, history, self.wish)

    def kept(self, name: str) -> Path | None:
        """Where what pytest finds in a suite is kept for the same content."""
        suite, root = self.harness.suite(name), self.harness.root
        roles = {OWN_ROLE: suite.worker, **suite.roles}
        return Kept(cache_folder(root) / "collections", root, self.head).path(
            {role: self.specs[worker].key for role, worker in roles.items()},
            suite.paths,
            pytest_arguments(suite, self.wish),
            suite.environment,
        )

    def unmet(
        self, suite: Suite, own: Built | None, workers: Mapping[str, Built]
    ) -> tuple[str, ...]:
        """What a suite needs and is not here; modules are looked for only in a worker.

        Of another machine only its runner's resources are known: what else there must be, the
        session there looks for, and says so where it is not.
        """
        if self.elsewhere:
            suite = suite.model_copy(
                update={"requires": tuple(r for r in suite.requires if r == "accelerator")}
            )
        if not suite.requires:
            return unmet(suite, None, self.runner, {})
        with self.environment(suite, workers) as environment:
            python = own.python if own else None
            return unmet(suite, python, self.runner, environment, inside=self.inside)

    @contextmanager
    def environment(self, suite: Suite, workers: Mapping[str, Built]) -> Iterator[dict[str, str]]:
        """What a process of the suite's own worker sees while it is planned."""
        private = private_folder()
        try:
            yield isolated_environment(
                inherited=os.environ,
                additions=self.variables(suite, workers),
                pythonpath=self.harness.import_folders,
                private=private,
            )
        finally:
            shutil.rmtree(private, ignore_errors=True)

    def variables(self, suite: Suite, workers: Mapping[str, Built]) -> dict[str, str]:
        """What a suite's items are given too: files that ask for it are collected as they run."""
        roles = {OWN_ROLE: suite.worker, **suite.roles}
        declared = {
            name: value
            for worker in sorted(set(roles.values()))
            for name, value in self.specs[worker].environment
        }
        pythons = {
            python_variable(role): str(workers[worker].python)
            for role, worker in roles.items()
            if worker in workers
        }
        return {**seeded({**declared, **suite.environment}), **pythons}

    def chosen(self, name: str, collected: Collected) -> Found:
        """The collected tests, or those that what changed can reach."""
        missed = absent(collected, self.harness.root, self.belonging.of(name))
        if not self.wish.changed_since:
            return Found(collected, collected.planned, absent=missed)
        keys = {worker: self.specs[worker].key for worker in suite_workers(self.harness, [name])}
        impact_map, about = read_map(self.harness.root, name, keys)
        selection = select_since(
            self.harness, self.wish.changed_since, name, collected.planned, impact_map
        )
        return Found(collected, selection.nodeids, (about, *selection.lines()), missed)

    def settled(self, name: str, verdict: Verdict) -> Item:
        """The item of a suite of which nothing is run."""
        return settled_item(name, self.harness.suite(name), self.wish, verdict)


@contextmanager
def planned(planning: Planning, names: Iterable[str], *, build: bool = True) -> Iterator[Planned]:
    """Make the workers ready, collect each suite once in its own, and divide it.

    A suite whose worker cannot be built, or that cannot run here, gets its verdict in the plan, so
    that the others run.

    Args:
        planning: what is needed for it.
        names: of the suites, in the order they run.
        build: whether workers are built and suites collected, since this is run; else what is
            ready is used, and what was found before in the same content.
    """
    harness = planning.harness
    history = durations.read(harness.root / harness.project.durations)
    with ExitStack() as held:
        workers, broken = planning.equip(held) if build else (planning.there(), {})
        items: list[Item] = []
        for name in names:
            needed = suite_workers(harness, [name])
            if problems := [broken[worker] for worker in needed if worker in broken]:
                items.append(planning.settled(name, Verdict(Kind.NOT_RUN, "; ".join(problems))))
                continue
            items += planning.items(name, workers, history, fresh=build)
        yield Planned(tuple(items), workers, planning.logs, broken)


def _fault(collected: Collected) -> str:
    """Why nothing of the suite can be planned; empty when it can."""
    return collected.fault or ("" if collected.planned else "no tests: the suite selects nothing")
