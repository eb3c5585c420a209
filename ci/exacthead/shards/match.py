"""Matching: which recorded duration belongs to which collected test, and what is left over."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.shards.nodeid import file_of, within

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@dataclass(frozen=True)
class Match:
    """Where each test's durations were found. Every recorded entry is in exactly one place.

    Attributes:
        exact: tests that are recorded under their own node id, in collection order.
        sources: test -> the one entry that is the same but for leading folders of its path.
        prefixes: how paths differ -> how many tests of ``sources`` do: ``ci/`` for entries that
            were recorded with that folder in front, ``-unit/`` for entries that lack it.
        ambiguous: entries that belong to several tests, or share a test with another entry; unused.
        gone: unused entries whose file is collected, but not their test.
        elsewhere: unused entries of files that are not collected: of other suites, or removed.
        unknown: tests without durations, in collection order.
    """

    exact: tuple[str, ...]
    sources: Mapping[str, str]
    prefixes: Mapping[str, int]
    ambiguous: tuple[str, ...]
    gone: tuple[str, ...]
    elsewhere: tuple[str, ...]
    unknown: tuple[str, ...]

    def source(self, nodeid: str) -> str:
        """The entry that holds the durations of a test that is not unknown."""
        return self.sources.get(nodeid, nodeid)


def match(recorded: Collection[str], nodeids: Sequence[str]) -> Match:
    """Find the entry of each test: under its own id, else under a path that one of them ends in.

    An entry whose file is collected is never taken for a test of another file.

    Args:
        recorded: the node ids of the history, in any order.
        nodeids: the collected tests, each once.
    """
    files = {file_of(nodeid) for nodeid in nodeids}
    known = set(recorded)
    exact = tuple(nodeid for nodeid in nodeids if nodeid in known)
    foreign = sorted(entry for entry in known if file_of(entry) not in files)
    partners = _partners(foreign, [nodeid for nodeid in nodeids if nodeid not in known])
    rivals: defaultdict[str, list[str]] = defaultdict(list)
    for entry, tests in partners.items():
        for test in tests:
            rivals[test].append(entry)
    found = {
        entry: tests[0]
        for entry, tests in partners.items()
        if len(tests) == 1 and len(rivals[tests[0]]) == 1
    }
    sources = {test: entry for entry, test in found.items()}
    prefixes: defaultdict[str, int] = defaultdict(int)
    for test, entry in sources.items():
        prefixes[_difference(file_of(entry), file_of(test))] += 1
    present = set(nodeids)
    return Match(
        exact=exact,
        sources=sources,
        prefixes=dict(sorted(prefixes.items())),
        ambiguous=tuple(entry for entry in partners if entry not in found),
        gone=tuple(sorted(e for e in known if file_of(e) in files and e not in present)),
        elsewhere=tuple(entry for entry in foreign if entry not in partners),
        unknown=tuple(n for n in nodeids if n not in known and n not in sources),
    )


def _partners(entries: Sequence[str], tests: Sequence[str]) -> dict[str, list[str]]:
    """Entry -> the tests that are the same but for leading folders; only entries that have any."""
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for test in tests:
        alike[_name(test)].append(test)
    partners = {}
    for entry in entries:
        if same := [
            test
            for test in alike.get(_name(entry), ())
            if _difference(file_of(entry), file_of(test))
        ]:
            partners[entry] = same
    return partners


def _name(nodeid: str) -> tuple[str, str]:
    return file_of(nodeid).rpartition("/")[2], within(nodeid)


def _difference(recorded: str, collected: str) -> str:
    """The leading folders that one path has more; empty when neither ends in the other."""
    if recorded.endswith("/" + collected):
        return recorded.removesuffix(collected)
    if collected.endswith("/" + recorded):
        return "-" + collected.removesuffix(recorded)
    return ""
