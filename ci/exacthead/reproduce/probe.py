"""Probe: runs of a few of a shard's tests, each in fresh processes, to find what poisons one."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.equip import open_store, ready
from exacthead.errors import HarnessError
from exacthead.images.where import in_images
from exacthead.judgement import judgement
from exacthead.reproduce.again import plan_again
from exacthead.reproduce.checkout import checkout
from exacthead.reproduce.images import placed_again
from exacthead.reproduce.poison import Search, choose, reduced
from exacthead.request import give_order, make_request
from exacthead.runs.folder import RunFolder
from exacthead.runs.interrupt import Interrupts
from exacthead.runs.item import run_item
from exacthead.session import Session
from exacthead.units.read import read_results
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from exacthead.config import Harness
    from exacthead.images.place import InImage
    from exacthead.plan import Item
    from exacthead.reproduce.past import Past
    from exacthead.reproduce.poison import Finding
    from exacthead.units.shard import Shard
    from exacthead.verdict import Verdict
    from exacthead.workers.spec import Spec

# The driver's exit codes when it has run its order: nothing wrong, something wrong.
_RAN = frozenset({0, 1})
_SHOWN = 2000


def find_poison(harness: Harness, past: Past, console: Console, invocation: str, asked: str) -> int:
    """Find the earlier tests that make a test of the item fail, and run just these and it.

    Probes leave nothing. The last run, of the shortest order, has a run folder like every other
    one, so that its line replays it.

    Returns:
        0 when the test has passed alone and in its order, else 1.

    Raises:
        HarnessError: the item is no suite's, has no such test, or a probe could not be run.
    """
    shard = _shard(past.item)
    test = choose(shard, asked)

    def say(line: str) -> None:
        console.out(f"exacthead: {line}")

    with ExitStack() as held, checkout(harness.root, past) as (root, apart):
        store = open_store(harness.root)
        images = held.enter_context(placed_again(past, root, harness.root, say))
        there, plan, specs, more = plan_again(past, root, store, invocation, images)
        differs = tuple(f"differs: {line}" for line in (*apart, *more))
        for line in differs:
            say(line)
        workers = images.workers if images else held.enter_context(ready(there, specs, store, say))
        pythons = {name: worker.python for name, worker in workers.items()}
        inside = images.by_item[past.item.id] if images else None
        found = _search(Prober(there, past.item, shard, specs, pythons, inside), test, say)
        words = f"bisect: {found.test} {found.words} ({found.probes} probes)"
        say(words)
        if found.culprits:
            least = replace(past.item, shard=reduced(shard, (*found.culprits, test)))
            last = Session(
                harness=there,
                plan=replace(plan, items=(least,)),
                specs=specs,
                store=store,
                console=console,
                runs=harness.root / "runs",
                judgement=judgement(there.root, harness.root / "runs", plan.runner, plan.head),
                remarks=(*differs, words),
                held=workers,
            )
            if in_images(last, images).run() == 0:
                say("bisect: it passed this time in the same order: it is flaky as well")
    return int(found.kind is not Kind.PASSED)


def _shard(item: Item) -> Shard:
    if item.shard is None or item.settled is not None:
        raise HarnessError(
            f"bisect the order of {item.id}",
            f"it is a {item.kind} that ran no tests in an order of ours",
            "name the item of a suite that has run",
        )
    return item.shard


def _search(prober: Prober, test: str, say: Callable[[str], object]) -> Finding:
    with (
        tempfile.TemporaryDirectory(prefix="exacthead-probes-") as folder,
        Interrupts() as interrupts,
    ):
        probe = partial(prober.run, RunFolder(Path(folder)), interrupts)
        return Search(prober.shard.nodeids, probe, say).run(test)


@dataclass
class Prober:
    """Runs some tests of an item as the item runs them, in the checkout of ``harness``.

    Attributes:
        harness: its declarations.
        item: the whole item.
        shard: its tests.
        specs: the specs of its workers, by name.
        pythons: their interpreters, by name.
        inside: the image that the item was in, if it was in one.
    """

    harness: Harness
    item: Item
    shard: Shard
    specs: Mapping[str, Spec]
    pythons: Mapping[str, Path]
    inside: InImage | None = None
    _count: int = field(default=0, init=False)

    def run(
        self, place: RunFolder, interrupts: Interrupts, nodeids: Sequence[str], test: str
    ) -> Verdict:
        """Run ``nodeids`` once, in fresh processes; what became of ``test``, one of them.

        Raises:
            HarnessError: nothing could be run.
            KeyboardInterrupt: someone has asked for the end, and everything has ended.
        """
        self._count += 1
        shard = reduced(self.shard, nodeids)
        item = replace(self.item, shard=shard)
        into = place.item(str(self._count))
        request = make_request(self.harness, item, self.specs, self.pythons, into, self.inside)
        request = give_order(self.harness, item, request, self.pythons, self.specs)
        outcome = run_item(request, stop=interrupts.asked)
        if interrupts.asked():
            raise KeyboardInterrupt
        if outcome.returncode not in _RAN:
            log = into.log.read_text(encoding="utf-8", errors="replace").strip()
            raise HarnessError(
                f"run {len(nodeids)} tests of {item.id}",
                f"{outcome.verdict}\n{log[-_SHOWN:]}",
                "replay the whole item first",
            )
        results = read_results(into.path, nodeids, "").results
        # A retry in a process of its own would say nothing of the order: there is none here.
        return next(each.attempts[0].verdict for each in results if each.nodeid == test)
