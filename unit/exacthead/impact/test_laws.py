"""Laws of the selection, over drawn projects; what it should be is computed by hand here."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.impact.changes import Change, Changes
from exacthead.impact.imports import Graph
from exacthead.impact.layout import Layout
from exacthead.impact.map import ImpactMap, Trace
from exacthead.impact.select import select
from exacthead.impact.source import ON_IMPORT

MODULES = [f"m{number}" for number in range(5)]
FUNCTIONS = ["f", "g"]
TESTS = [f"test_{number}" for number in range(3)]
PARTS = [ON_IMPORT, *FUNCTIONS]

Edges = dict[str, dict[str, frozenset[str]]]


@dataclass(frozen=True)
class Project:
    """Modules and tests, and by file and part what is imported there."""

    edges: Edges

    def write(self, root: Path) -> Graph:
        for name, parts in self.edges.items():
            text = "".join(f"import {other}\n" for other in sorted(parts[ON_IMPORT]))
            for function in FUNCTIONS:
                body = [f"    import {other}\n" for other in sorted(parts[function])]
                text += f"def {function}():\n    pass\n" + "".join(body)
            (root / f"{name}.py").write_text(text, encoding="utf-8")
        return Graph(root, Layout(frozenset(f"{name}.py" for name in self.edges), ("",)))


some_modules = st.frozensets(st.sampled_from(MODULES), max_size=2)
projects = st.builds(
    Project,
    st.fixed_dictionaries(
        {
            name: st.fixed_dictionaries(dict.fromkeys(PARTS, some_modules))
            for name in [*MODULES, *TESTS]
        }
    ),
)
some_parts = st.one_of(st.none(), st.frozensets(st.sampled_from(PARTS)))
some_changes = st.dictionaries(st.sampled_from([*MODULES, *TESTS]), some_parts, max_size=3)
some_runs = st.dictionaries(
    st.sampled_from(MODULES), st.frozensets(st.sampled_from(FUNCTIONS)), max_size=3
)


def as_changes(drawn: dict[str, frozenset[str] | None]) -> Changes:
    return Changes(
        {f"{name}.py": Change(f"{name}.py", "modified", parts) for name, parts in drawn.items()}
    )


def as_map(runs: list[dict[str, frozenset[str]]]) -> ImpactMap:
    traces = [
        Trace(
            frozenset({f"{test}.py::f"}),
            {f"{name}.py": functions for name, functions in {**ran, test: frozenset("f")}.items()},
        )
        for test, ran in zip(TESTS, runs, strict=True)
    ]
    # A trace of no test, so that everything counts as measured.
    everything = Trace(frozenset(), {f"{name}.py": frozenset() for name in [*MODULES, *TESTS]})
    return ImpactMap("all", "0" * 40, {}, (*traces, everything))


def selected(graph: Graph, changes: Changes, impact_map: ImpactMap | None) -> set[str]:
    chosen = select([f"{test}.py::f" for test in TESTS], changes, graph, impact_map)
    everyone = [choice.nodeid for choice in (*chosen.selected, *chosen.left_out)]
    assert sorted(everyone) == [f"{test}.py::f" for test in TESTS]
    assert all(choice.reason for choice in (*chosen.selected, *chosen.left_out))
    return {choice.nodeid.removesuffix(".py::f") for choice in chosen.selected}


def closure(edges: Edges, start: list[str], ran: dict[str, frozenset[str]] | None) -> set[str]:
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            counted = PARTS if ran is None else [ON_IMPORT, *ran.get(name, ())]
            waiting += [other for part in counted for other in edges[name][part]]
    return found


@settings(max_examples=60)
@given(projects, some_changes)
def test_without_a_map_exactly_who_reaches_a_changed_file_runs(
    project: Project, drawn: dict[str, frozenset[str] | None]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = selected(project.write(Path(folder)), as_changes(drawn), None)

    assert runs == {test for test in TESTS if closure(project.edges, [test], None) & set(drawn)}


@settings(max_examples=60)
@given(projects, some_changes, st.lists(some_runs, min_size=3, max_size=3))
def test_with_a_map_a_test_is_left_out_only_if_nothing_that_it_ran_or_imported_changed(
    project: Project,
    drawn: dict[str, frozenset[str] | None],
    runs: list[dict[str, frozenset[str]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = project.write(Path(folder))
        chosen = selected(graph, as_changes(drawn), as_map(runs))
        without = selected(graph, as_changes(drawn), None)

    for test, ran in zip(TESTS, runs, strict=True):
        seen = {**ran, test: frozenset("f")}
        reached = closure(project.edges, [test, *ran], seen)
        matters = test in drawn or any(
            parts is None or parts & {ON_IMPORT, *seen.get(name, ())}
            for name, parts in drawn.items()
            if name in reached
        )
        assert (test in chosen) == matters
        # Evidence only narrows what is imported, but for files that nothing was known to import.
        assert (
            test not in chosen or test in without or set(ran) - closure(project.edges, [test], None)
        )


@settings(max_examples=60)
@given(
    projects,
    some_changes,
    some_changes,
    st.one_of(st.none(), st.lists(some_runs, min_size=3, max_size=3)),
)
def test_more_changes_never_select_less(
    project: Project,
    one: dict[str, frozenset[str] | None],
    two: dict[str, frozenset[str] | None],
    runs: list[dict[str, frozenset[str]]] | None,
) -> None:
    impact_map = None if runs is None else as_map(runs)
    with tempfile.TemporaryDirectory() as folder:
        graph = project.write(Path(folder))
        few = selected(graph, as_changes(one), impact_map)
        many = selected(graph, as_changes(one).joined(as_changes(two)), impact_map)

    assert few <= many
