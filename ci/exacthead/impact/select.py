"""Select: which tests a change can matter to, which it cannot, and why, test by test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.git import merge_base
from exacthead.impact.changes import changes_since
from exacthead.impact.imports import WHOLE, Graph
from exacthead.impact.layout import is_python, read_layout
from exacthead.impact.other import decides_everything, unexplained
from exacthead.impact.plugins import plugins
from exacthead.shards.nodeid import file_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exacthead.config import Harness
    from exacthead.impact.changes import Changes
    from exacthead.impact.imports import Evidence, Reach
    from exacthead.impact.map import ImpactMap

_SHOWN = 5


@dataclass(frozen=True)
class Choice:
    """A test and why it is selected or left out."""

    nodeid: str
    reason: str


@dataclass(frozen=True)
class Selection:
    """What became of every test that was asked about, in the order of the question.

    Attributes:
        selected: the tests that a change can matter to.
        left_out: the others.
        notes: what the choice was made from.
    """

    selected: tuple[Choice, ...]
    left_out: tuple[Choice, ...]
    notes: tuple[str, ...] = ()

    @property
    def nodeids(self) -> tuple[str, ...]:
        """The selected tests."""
        return tuple(choice.nodeid for choice in self.selected)

    def lines(self) -> tuple[str, ...]:
        """The selection in words, for a report."""
        total = len(self.selected) + len(self.left_out)
        return (
            f"{len(self.selected)} of {total} tests selected, {len(self.left_out)} left out",
            *self.notes,
            *_grouped("selected", self.selected),
            *_grouped("left out", self.left_out),
        )


def select_since(
    harness: Harness,
    rev: str,
    suite_name: str,
    nodeids: Sequence[str],
    impact_map: ImpactMap | None,
) -> Selection:
    """Choose among the tests of a suite by what changed since the head's branch left ``rev``.

    Args:
        harness: the declarations of the checkout.
        rev: a commit, a branch or a tag.
        suite_name: the suite's name.
        nodeids: its collected tests.
        impact_map: from :func:`exacthead.impact.map.read_map`; None for imports alone.

    Raises:
        HarnessError: an unknown suite or revision, or one that has no history in common.
    """
    suite, root = harness.suite(suite_name), harness.root
    base = merge_base(root, rev)
    changes = changes_since(root, base)
    notes = [f"{len(changes.files)} files changed since {base[:12]} (where {rev} was left)"]
    if impact_map is not None and impact_map.commit != base:
        changes = changes.joined(changes_since(root, impact_map.commit))
        notes.append(f"{len(changes.files)} with those since the map's {impact_map.commit[:12]}")
    layout = read_layout(root, harness.project.pythonpath, changes.of_kind("deleted"))
    others = [path for path in changes.files if not is_python(path)]
    graph = Graph(root, layout, others, plugins(root, layout, suite.arguments))
    folders = {path for each in harness.suites.values() for path in each.paths}
    everywhere = [path for path in layout.python if _below(path, folders | {*suite.paths})]
    chosen = select(nodeids, changes, graph, impact_map, everywhere)
    return Selection(chosen.selected, chosen.left_out, tuple(notes))


def select(
    nodeids: Sequence[str],
    changes: Changes,
    graph: Graph,
    impact_map: ImpactMap | None = None,
    test_files: Iterable[str] = (),
) -> Selection:
    """Choose among tests by what changed.

    A test is left out only when no part that it reaches changed and nothing about that is unsure:
    without a map it reaches every part of every file that it may import or name; with one, of the
    files that were measured, what runs on import and the functions that ran with it.

    Args:
        nodeids: the tests.
        changes: what changed, since the map's commit too.
        graph: the sources.
        impact_map: what ran in an earlier run.
        test_files: the Python files of all suites, which tell who reads a file that is no Python.
    """
    judge = _Judge(changes, graph, impact_map, [*test_files, *map(file_of, nodeids)])
    verdicts = [(nodeid, *judge.judge(nodeid)) for nodeid in nodeids]
    return Selection(
        tuple(Choice(nodeid, reason) for nodeid, runs, reason in verdicts if runs),
        tuple(Choice(nodeid, reason) for nodeid, runs, reason in verdicts if not runs),
    )


class _Judge:
    def __init__(
        self,
        changes: Changes,
        graph: Graph,
        impact_map: ImpactMap | None,
        test_files: Iterable[str],
    ) -> None:
        self._changes = changes
        self._graph = graph
        self._evidence = None if impact_map is None else impact_map.evidence()
        self._forced = _forced(changes, graph, test_files)
        self._known: dict[tuple[str, int], tuple[bool, str]] = {}

    def judge(self, nodeid: str) -> tuple[bool, str]:
        """Whether a test runs, and why."""
        if self._forced:
            return True, self._forced
        if not self._changes.files:
            return False, "nothing changed"
        file = file_of(nodeid)
        if file not in self._graph.layout.files:
            return True, f"not sure: no file {file} in the checkout"
        evidence = None
        if self._evidence is not None:
            evidence = self._evidence.get(nodeid)
            if evidence is None:
                return True, "the impact map has no evidence of it"
        key = (file, id(evidence))
        if key not in self._known:
            self._known[key] = self._judge_file(file, evidence)
        return self._known[key]

    def _judge_file(self, file: str, evidence: Evidence | None) -> tuple[bool, str]:
        for own in (file, *self._graph.conftests(file)):
            if own in self._changes.files:
                return True, f"{own} changed"
        reach = self._graph.reach(file, evidence)
        if reach.unsure:
            return True, f"not sure: {reach.unsure[0]}"
        spared = []
        for path, change in self._changes.files.items():
            if path in reach.mentioned:
                return True, f"{path} changed, {reach.mentioned[path]} names it"
            if path not in reach.parts:
                continue
            parts = reach.parts[path]
            if parts == WHOLE or change.within(parts):
                return True, f"{path} changed: {reach.way(path)}"
            spared.append(path)
        return False, _why_not(reach, spared)


def _forced(changes: Changes, graph: Graph, test_files: Iterable[str]) -> str:
    """Why everything runs; empty when it need not."""
    if changes.untold:
        return f"everything: {changes.untold[0]} changed"
    for path in changes.files:
        if decides_everything(path):
            return f"everything: {path} changed"
    others = [path for path in changes.files if not is_python(path)]
    named = graph.reach_all(test_files).mentioned if others else {}
    if unknown := unexplained(others, named):
        return f"everything: {unknown[0]} changed, and nothing tells who reads it"
    return ""


def _why_not(reach: Reach, spared: Sequence[str]) -> str:
    if not spared:
        return f"no change in the {len(reach.parts)} files it reaches"
    shown = ", ".join(spared[:_SHOWN]) + (" ..." if len(spared) > _SHOWN else "")
    return f"no change in what ran with it: only in other functions of {shown}"


def _grouped(what: str, choices: Sequence[Choice]) -> list[str]:
    counted = Counter(choice.reason for choice in choices)
    lines = [f"{what}: {count} x {reason}" for reason, count in counted.most_common(_SHOWN)]
    if len(counted) > _SHOWN:
        lines.append(f"{what}: {len(counted) - _SHOWN} more reasons")
    return lines


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in folders)
