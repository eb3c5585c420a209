"""Imports: what a test file can reach, as parts of files, judged by reading the sources.

Without evidence of a run every part of every reached file counts. With evidence only what runs on
import counts of a file, and the functions that were seen running.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exacthead.impact.layout import Layout, ancestors, is_python, join
from exacthead.impact.mention import mentions
from exacthead.impact.references import References, places, refer
from exacthead.impact.source import ON_IMPORT, read_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# Bytes; beyond that a file that is no Python is data.
_LONGEST = 1 << 20
_WORD = re.compile(r"[\w./-]+")
_ASKS = re.compile(r"""-m\s+["']?\$""")
# Of a file that counts as a whole: all its parts, and its text.
WHOLE = frozenset({"(whole)"})


@dataclass(frozen=True)
class Evidence:
    """What was seen running in the processes that a test ran in, at an earlier commit.

    Attributes:
        ran: by file, the functions that ran; a file of which only the import ran has none.
        measured: every file that the measurement knows, also from other tests.
        partial: why more may have run than that; empty when nothing did.
    """

    ran: Mapping[str, frozenset[str]]
    measured: frozenset[str]
    partial: str = ""


@dataclass(frozen=True)
class Edges:
    """Where one part leads.

    Attributes:
        imports: files that run in the same process, so that evidence tells what of them ran.
        others: files that may run elsewhere or be read: they count as a whole.
        mentioned: changed files that are no Python and that the part names.
        unsure, hidden, unseen, chance: as in :class:`~exacthead.impact.references.References`.
    """

    imports: frozenset[str]
    others: frozenset[str]
    mentioned: frozenset[str]
    unsure: tuple[str, ...]
    hidden: tuple[str, ...]
    unseen: bool = False
    chance: bool = False


@dataclass
class Reach:
    """What a test file reaches.

    Attributes:
        parts: by file, the parts that count; :data:`WHOLE` when everything in it does.
        through: by file, the file that led to it; itself for where the search began.
        mentioned: changed files that are no Python, by the file that names them.
        unsure: why the list may not be complete.
        notes: why evidence was not used.
    """

    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    through: dict[str, str] = field(default_factory=dict)
    mentioned: dict[str, str] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def way(self, path: str) -> str:
        """How ``path`` was reached, for a report: ``test_a.py -> b.py -> c.py``."""
        steps = [path]
        while (before := self.through[steps[0]]) != steps[0]:
            steps.insert(0, before)
        return " -> ".join(steps)


class Graph:
    """The sources of a checkout and where each part of each leads.

    Args:
        root: the checkout.
        layout: its files.
        others: changed files that are no Python; who names them is noted.
        plugins: files that pytest loads for every test, whoever imports them.
    """

    def __init__(
        self,
        root: Path,
        layout: Layout,
        others: Iterable[str] = (),
        plugins: Iterable[str] = (),
    ) -> None:
        self.layout = layout
        self._root = root
        self._others = tuple(others)
        self._plugins = tuple(plugins)
        self._nodes: dict[str, dict[str, Edges]] = {}

    def reach(self, test_file: str, evidence: Evidence | None = None) -> Reach:
        """What the tests of ``test_file`` reach: through it and the conftest.py files above it."""
        starts = [test_file, *self.conftests(test_file), *self._plugins]
        if evidence is None:
            return _Search(self, None).run(starts)
        starts += sorted(evidence.ran)
        found = _Search(self, evidence).run(starts)
        if evidence.partial:
            doubt = evidence.partial
        elif any(edges.chance for edges in self.edges(test_file).values()):
            doubt = f"{test_file} takes another way each time"
        elif blind := [path for path in found.through if self._blind(path, evidence)]:
            doubt = f"{blind[0]} runs code where it may not have been seen"
        else:
            return found
        # What was seen is a part of it at best, and counts beside what is imported.
        whole = _Search(self, None).run(starts)
        whole.notes.append(f"judged by imports alone: {doubt}")
        return whole

    def reach_all(self, test_files: Iterable[str]) -> Reach:
        """What any of these files reaches, without evidence."""
        files = dict.fromkeys(path for path in test_files if path in self.layout.files)
        starts = {each: None for path in files for each in (path, *self.conftests(path))}
        return _Search(self, None).run([*starts, *self._plugins])

    def conftests(self, test_file: str) -> list[str]:
        """The conftest.py files that pytest loads for a test file."""
        above = (join(folder, "conftest.py") for folder in ancestors(test_file))
        return [path for path in above if path in self.layout.files]

    def edges(self, path: str) -> dict[str, Edges]:
        """Where each part of the file ``path`` leads."""
        if path not in self._nodes:
            self._nodes[path] = self._read(path)
        return self._nodes[path]

    def _blind(self, path: str, evidence: Evidence) -> bool:
        """Whether the file started work that a tracer may not have seen."""
        parts = self.edges(path)
        running = evidence.ran.get(path, frozenset())
        if path not in evidence.measured:
            running = frozenset(parts) - {ON_IMPORT}
        looked_at = running | {ON_IMPORT} if running else running
        return any(parts[name].unseen for name in looked_at if name in parts)

    def _read(self, path: str) -> dict[str, Edges]:
        packages = {join(folder, "__init__.py") for folder in ancestors(path)}
        packages &= self.layout.files - {path}
        nothing = Edges(frozenset(packages), frozenset(), frozenset(), (), ())
        file = self._root / path
        if not file.is_file():  # deleted: whoever still leads here is what matters
            return {ON_IMPORT: nothing}
        if not is_python(path):
            return {ON_IMPORT: self._named_by(path, file)}
        try:
            parts = read_parts(file.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, RecursionError) as error:
            words = f"{path}: cannot be read as Python ({type(error).__name__})"
            return {
                ON_IMPORT: Edges(frozenset(packages), frozenset(), frozenset(), (words,), (words,))
            }
        known = places(parts[ON_IMPORT])
        return {
            name: self._part(path, refer(part, known), packages) for name, part in parts.items()
        }

    def _named_by(self, path: str, file: Path) -> Edges:
        """Where a script or a file of data leads: to what it names, and to siblings without ending.

        What is long or no text is data that names nothing.
        """
        try:
            text = file.read_text(encoding="utf-8") if file.stat().st_size <= _LONGEST else ""
        except UnicodeDecodeError:
            text = ""
        layout = self.layout
        folder = ancestors(path)[0]
        words = {*_WORD.findall(text)}
        others = layout.named_in(f" {text}", path)
        others |= {each for word in words if "/" in word for each in layout.below(word, path)}
        siblings = (each for each in layout.links if ancestors(each)[0] == folder)
        others |= {each for each in siblings if each.rsplit("/", 1)[-1].split(".")[0] in words}
        hidden = (f"{path}: `-m` of what is only known when it runs",) if _ASKS.search(text) else ()
        return Edges(
            imports=frozenset(),
            others=frozenset(others - {path}),
            mentioned=frozenset(each for each in self._others if mentions(text, each)),
            unsure=(),
            hidden=hidden,
        )

    def _part(self, path: str, refers: References, packages: set[str]) -> Edges:
        layout = self.layout
        imports = packages | {each for name in refers.imports for each in layout.module(name, path)}
        texts = refers.texts | refers.paths
        others = {each for text in texts for each in layout.named_in(text, path)}
        paths = refers.paths | {text for text in refers.texts if "/" in text}
        others |= {each for text in paths for each in layout.below(text, path)}
        mentioned = {each for each in self._others if any(mentions(text, each) for text in texts)}
        mentioned |= {each for each in self._others if _named_after(path, each)}
        if refers.reads_code:
            others |= imports
        if refers.itself:
            others.add(path)
        if refers.walks:
            others |= set(layout.python)
            mentioned |= set(self._others)
        return Edges(
            imports=frozenset(imports),
            others=frozenset(others),
            mentioned=frozenset(mentioned),
            unsure=tuple(f"{path} {words}" for words in refers.unsure),
            hidden=tuple(f"{path} {words}" for words in refers.hidden),
            unseen=refers.unseen,
            chance=refers.chance,
        )


def _named_after(path: str, other: str) -> bool:
    """Whether a file, or a folder that it lies in, has a test file's name, as its data often do."""
    stem = path.rsplit("/", 1)[-1].removesuffix(".py")
    if not (stem.startswith("test_") or stem.endswith("_test")):
        return False
    return any(part.split(".", 1)[0] == stem for part in other.split("/"))


class _Search:
    """One walk through a graph."""

    def __init__(self, graph: Graph, evidence: Evidence | None) -> None:
        self._graph = graph
        self._evidence = evidence
        self._found = Reach()
        self._waiting: deque[tuple[str, bool]] = deque()

    def run(self, starts: Iterable[str]) -> Reach:
        for path in starts:
            self._add(path, path, whole=self._evidence is None)
        while self._waiting:
            self._follow(*self._waiting.popleft())
        return self._found

    def _add(self, path: str, through: str, *, whole: bool) -> None:
        found = self._found
        if found.parts.get(path) == WHOLE or (path in found.parts and not whole):
            return
        found.through.setdefault(path, through)
        found.parts[path] = WHOLE if whole else self._seen(path)
        self._waiting.append((path, whole))

    def _seen(self, path: str) -> frozenset[str]:
        """The parts of a file that count when there is evidence."""
        if self._evidence is None or path not in self._evidence.measured:
            return frozenset(self._graph.edges(path)) | {ON_IMPORT}
        return self._evidence.ran.get(path, frozenset()) | {ON_IMPORT}

    def _follow(self, path: str, whole: bool) -> None:
        parts = self._graph.edges(path)
        counted = self._found.parts[path]
        seen = self._evidence is not None and path in self._evidence.measured and not whole
        for name, edges in parts.items():
            if not whole and name not in counted:
                continue
            for each in sorted(edges.imports):
                self._add(each, path, whole=whole)
            for each in sorted(edges.others):
                self._add(each, path, whole=True)
            for each in edges.mentioned:
                self._found.mentioned.setdefault(each, path)
            self._found.unsure += edges.hidden if seen else (*edges.unsure, *edges.hidden)
