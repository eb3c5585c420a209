"""From the collected tests of a suite to items of a plan: shards, and what is settled already."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from exacthead.impact.run import apart
from exacthead.plan import DRIVER, Item
from exacthead.shards.divide import Shard as Part
from exacthead.shards.divide import plan_shards
from exacthead.shards.nodeid import file_of
from exacthead.tables import OWN_ROLE
from exacthead.units.absent import Absent
from exacthead.units.shard import Shard
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exacthead.shards.durations import Durations
    from exacthead.tables import Suite
    from exacthead.units.collect import Collected
    from exacthead.wish import Wish

_SHOWN = 3


@dataclass(frozen=True)
class Found:
    """The tests of a suite that are to run.

    Attributes:
        collected: what pytest found.
        nodeids: those of it that are to run, in pytest's order.
        notes: how they were chosen.
        absent: what of the suite's files was not found.
    """

    collected: Collected
    nodeids: tuple[str, ...]
    notes: tuple[str, ...] = ()
    absent: Absent = field(default_factory=Absent)

    @property
    def left_out(self) -> int:
        """How many were not chosen."""
        return len(self.collected.planned) - len(self.nodeids)


def pytest_arguments(suite: Suite, wish: Wish) -> tuple[str, ...]:
    """What pytest is given beside the paths, the same for collecting and running."""
    markers = (f"-m{suite.markers}",) if suite.markers else ()
    return (*markers, *suite.arguments, *wish.arguments)


def settled_item(name: str, suite: Suite, wish: Wish, verdict: Verdict) -> Item:
    """The item of a suite of which nothing is run; what is only skipped must be so on purpose."""
    required = suite.required and (wish.strict or verdict.kind is not Kind.SKIPPED)
    return replace(_item(name, suite, wish), settled=verdict, required=required)


def skipped(item: Item, reason: str, *, strict: bool) -> Item:
    """The same item, which still says what was selected, where its place cannot run it."""
    verdict = Verdict(Kind.SKIPPED, reason)
    return replace(item, settled=verdict, required=item.required and strict)


def shard_items(
    name: str, suite: Suite, found: Found, history: Durations, wish: Wish
) -> tuple[Item, ...]:
    """The suite's items, one for each shard that is asked for; the first bears the notes.

    Args:
        name: the suite's.
        suite: its declaration.
        found: its tests.
        history: what tests took before.
        wish: how it is to be run.
    """
    parts, report = _divided(suite, found.nodeids, history, wish)
    of = len(parts)
    numbers = (wish.shard[0],) if wish.shard else range(1, of + 1)
    making = _Making(name, suite, found, wish)
    items = []
    for number in numbers:
        part = parts[number - 1]
        item = making.item(number, of, part.groups, part.seconds)
        if not part.groups:
            reason = f"empty by plan: {len(found.nodeids)} tests over {of} shards"
            if found.left_out:
                reason += f", {found.left_out} left out by what changed"
            item = replace(item, settled=Verdict(Kind.SKIPPED, reason), required=False)
        items.append(item)
    items[0] = replace(items[0], notes=(*report, *_notes(found), *found.notes))
    return tuple(items)


@dataclass(frozen=True)
class _Making:
    """What all items of one suite share."""

    name: str
    suite: Suite
    found: Found
    wish: Wish

    def item(
        self, number: int, of: int, groups: tuple[tuple[str, ...], ...], seconds: float
    ) -> Item:
        """The item that runs these groups, which should take so long."""
        suite, found, wish = self.suite, self.found, self.wish
        duplicates = (f"two tests are called {each}" for each in found.collected.duplicates)
        shard = Shard(
            suite=self.name,
            number=number,
            of=of,
            paths=suite.paths,
            groups=groups,
            arguments=pytest_arguments(suite, wish),
            processes=min(wish.processes or suite.processes, max(1, len(groups))),
            test_timeout_s=suite.test_timeout_s,
            retries=wish.retries,
            complete=not (found.left_out or found.collected.deselected),
            elsewhere=_others(self.by_file, groups),
            faults=(*duplicates, *found.absent.faults),
            expected_s=round(seconds, 3),
            may_skip=suite.may_skip or not wish.strict,
            coverage=suite.coverage and wish.coverage,
            contexts=wish.contexts,
        )
        return replace(_item(self.name, suite, wish, number, of), shard=shard)

    @cached_property
    def by_file(self) -> dict[str, list[str]]:
        """The collected tests by their file."""
        return _by_file(self.found.collected.nodeids)


def repeated_items(
    name: str, suite: Suite, found: Found, earlier: Sequence[Shard], wish: Wish
) -> tuple[Item, ...]:
    """Shards of an earlier run again: their tests that are still there, in the same groups.

    Args:
        name: the suite's.
        suite: its declaration.
        found: its tests as they are now.
        earlier: the shards.
        wish: how it is to be run.
    """
    there, making = set(found.nodeids), _Making(name, suite, found, wish)
    items = []
    for old in earlier:
        kept = (tuple(each for each in group if each in there) for group in old.groups)
        groups = tuple(group for group in kept if group)
        item = making.item(old.number, old.of, groups, old.expected_s)
        if item.shard:
            # The suite has other tests, of which this session says nothing.
            item = replace(item, shard=replace(item.shard, complete=False))
        if gone := len(old.nodeids) - sum(map(len, groups)):
            note = f"{gone} of the {len(old.nodeids)} tests of the earlier run are gone"
            item = replace(item, notes=(note,))
            if not groups:
                item = replace(item, settled=Verdict(Kind.NOT_RUN, note))
        items.append(item)
    items[0] = replace(items[0], notes=(*items[0].notes, *_notes(found), *found.notes))
    return tuple(items)


def unread_items(
    name: str, suite: Suite, wish: Wish, note: str, earlier: Sequence[Shard] = ()
) -> tuple[Item, ...]:
    """The items of a suite of which nobody knows the tests yet; ``note`` says why."""
    if earlier:
        numbers = [(shard.number, shard.of) for shard in earlier]
    elif wish.shard:
        numbers = [wish.shard]
    else:
        of = wish.shards or suite.shards
        numbers = [(number, of) for number in range(1, of + 1)]
    return tuple(
        replace(_item(name, suite, wish, number, of), notes=(note,)) for number, of in numbers
    )


def _divided(
    suite: Suite, nodeids: Sequence[str], history: Durations, wish: Wish
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The suite's parts and what the planner says of them."""
    if wish.contexts:
        # Tests of one item share what ran, so each file is an item of its own.
        return tuple(Part((file,), 0.0) for file in apart(nodeids)), ()
    of = wish.shard[1] if wish.shard else wish.shards or suite.shards
    division = plan_shards(nodeids, history, of, wish.processes or suite.processes)
    return division.shards, division.report


def _by_file(nodeids: Iterable[str]) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for nodeid in nodeids:
        files.setdefault(file_of(nodeid), []).append(nodeid)
    return files


def _others(files: Mapping[str, Sequence[str]], groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The tests in the files of some groups that these groups do not have."""
    mine = {nodeid: file_of(nodeid) for group in groups for nodeid in group}
    return tuple(
        nodeid
        for file in dict.fromkeys(mine.values())
        for nodeid in files.get(file, ())
        if nodeid not in mine
    )


def _notes(found: Found) -> tuple[str, ...]:
    """What the plan's readers should know of how the tests were collected."""
    collected = found.collected
    notes = list(found.absent.notes)
    if collected.deselected:
        notes.append(f"{collected.deselected} tests were left out by markers or arguments")
    if collected.unstable:
        shown = ", ".join(collected.unstable[:_SHOWN])
        notes.append(f"ids that hold an address are others in each process: {shown}")
    return tuple(notes)


def _item(name: str, suite: Suite, wish: Wish, number: int = 1, of: int = 1) -> Item:
    part = f".{number}of{of}" if of > 1 or wish.shard else ""
    return Item(
        id=f"unit.{name}{part}",
        kind="suite",
        command=DRIVER,
        workers={OWN_ROLE: suite.worker, **suite.roles},
        environment=suite.environment,
        timeout_s=suite.timeout_s,
        network=suite.network,
        cpus=suite.cpus,
        memory_gb=suite.memory_gb,
        accelerators=suite.accelerators,
        needs=suite.needs,
        secrets=suite.secrets,
        required=suite.required,
    )
