"""Poison: which earlier tests of a shard's order make a later one fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError, nearest
from exacthead.reproduce.bisect import find_culprits
from exacthead.shards.nodeid import within
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from exacthead.units.shard import Shard

# Runs node ids in this order in fresh processes; what the named one of them came to.
Probe = Callable[[Sequence[str], str], Verdict]
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """What the probes have shown.

    Attributes:
        test: the node id that was asked about.
        kind: what becomes of it in the order.
        culprits: a smallest set of tests after which it becomes the same; empty when none do.
        words: the same as a sentence.
        probes: how many runs that took.
    """

    test: str
    kind: Kind
    culprits: tuple[str, ...]
    words: str
    probes: int


def choose(shard: Shard, asked: str) -> str:
    """The test of the shard that ``asked`` names: its node id, or an end of it that is unique.

    Raises:
        HarnessError: none or several of the shard's tests are called so.
    """
    nodeids = shard.nodeids
    found = [each for each in nodeids if each == asked] or [
        each for each in nodeids if each.endswith((f"/{asked}", f"::{asked}"))
    ]
    if len(found) == 1:
        return found[0]
    wanted = f"bisect the order for {asked!r}"
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        named = f"name one: {', '.join(found[:_SHOWN])}{more}"
        raise HarnessError(wanted, f"{len(found)} tests end so", named)
    # A name without its file is compared with names alone.
    whole = "/" in asked or "::" in asked
    known = nodeids if whole else {within(each).rpartition("::")[2] or each for each in nodeids}
    raise HarnessError(wanted, "no such test in this item", nearest(asked, known))


@dataclass
class Search:
    """Finding what poisons a test.

    Attributes:
        order: the node ids of a shard in the order they ran.
        probe: runs some of them.
        say: gets a line for each probe.
    """

    order: Sequence[str]
    probe: Probe
    say: Callable[[str], object]
    probes: int = field(default=0, init=False)

    def run(self, test: str) -> Finding:
        """Find a smallest set of other tests after which ``test`` ends as in the whole order."""
        position = list(self.order).index(test)
        alone = self._ask((), test).kind
        if alone in FAULTS:
            return self._found(test, alone, (), f"{alone} alone too: broken, not poisoned")
        if alone is Kind.NOT_RUN:
            words = "was not even run alone: can its file be collected?"
            return self._found(test, alone, (), words)
        others = tuple(self.order[:position])
        verdict = self._ask(others, test)
        unclear = verdict.kind not in FAULTS and verdict.kind is not Kind.NOT_RUN
        if unclear and position < len(self.order) - 1:
            # What comes later can still poison when its file is imported.
            others = tuple(each for each in self.order if each != test)
            verdict = self._ask(others, test)
        kind = verdict.kind
        if kind is Kind.NOT_RUN:
            # Most often the limit of restarts: the reason names it.
            return self._found(test, kind, (), f"was not run in this order: {verdict.reason}")
        if kind not in FAULTS:
            return self._found(test, kind, (), f"{kind} in this order too: flaky?")
        culprits = find_culprits(others, lambda part: self._ask(part, test).kind is kind)
        return self._found(
            test, kind, culprits, f"{kind} after {' and '.join(culprits)}, {alone} alone"
        )

    def _ask(self, others: tuple[str, ...], test: str) -> Verdict:
        self.probes += 1
        chosen = {*others, test}
        verdict = self.probe([each for each in self.order if each in chosen], test)
        ran = f"{len(others)} of {len(self.order) - 1} others"
        self.say(f"probe {self.probes}: {ran}: {verdict.kind}")
        return verdict

    def _found(self, test: str, kind: Kind, culprits: tuple[str, ...], words: str) -> Finding:
        return Finding(test, kind, culprits, words, self.probes)


def reduced(shard: Shard, chosen: Sequence[str]) -> Shard:
    """The shard with only the chosen tests, in its order and groups, each run once."""
    kept = frozenset(chosen)
    groups = (tuple(each for each in group if each in kept) for group in shard.groups)
    return replace(
        shard,
        groups=tuple(group for group in groups if group),
        elsewhere=(*shard.elsewhere, *(each for each in shard.nodeids if each not in kept)),
        processes=1,
        retries=0,
        coverage=False,
    )
