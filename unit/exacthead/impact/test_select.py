from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.impact.changes import Change, Changes
from exacthead.impact.imports import Graph
from exacthead.impact.map import ImpactMap, Trace
from exacthead.impact.select import Selection, select, select_since

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.exacthead.conftest import Repository

ONE, TWO = "tests/test_one.py::test_one", "tests/test_two.py::test_two"
SOURCES = {
    "one.py": "def used():\n    return 1\n\ndef idle():\n    return 2\n",
    "two.py": "NAME = 'rows.json'\n",
    "load.py": "def load(name):\n    return __import__(name)\n",
    "tests/test_one.py": "import one\ndef test_one():\n    assert one.used() == 1\n",
    "tests/test_two.py": "import two\ndef test_two():\n    pass\n",
    "tests/test_unsure.py": "import load\n",
}


def changed(*paths: str, **parts: frozenset[str]) -> Changes:
    files = {path: Change(path, "modified") for path in paths}
    files |= {
        f"{name}.py": Change(f"{name}.py", "modified", found) for name, found in parts.items()
    }
    return Changes(files)


def reasons(selection: Selection) -> dict[str, str]:
    return {choice.nodeid: choice.reason for choice in selection.selected}


def chosen(graph: Graph, changes: Changes, impact_map: ImpactMap | None = None) -> Selection:
    others = [path for path in changes.files if not path.endswith(".py")]
    graph = Graph(graph._root, graph.layout, others)
    return select([ONE, TWO], changes, graph, impact_map)


def test_a_test_runs_when_a_file_it_reaches_changed(make_graph: Callable[..., Graph]) -> None:
    selection = chosen(make_graph(SOURCES), changed("one.py"))

    assert reasons(selection) == {ONE: "one.py changed: tests/test_one.py -> one.py"}
    assert selection.nodeids == (ONE,)
    assert [choice.nodeid for choice in selection.left_out] == [TWO]
    assert selection.left_out[0].reason == "no change in the 2 files it reaches"


def test_a_test_runs_when_its_own_file_or_a_conftest_changed(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph({**SOURCES, "tests/conftest.py": ""})

    assert reasons(chosen(graph, changed("tests/test_two.py"))) == {
        TWO: "tests/test_two.py changed"
    }
    assert set(reasons(chosen(graph, changed("tests/conftest.py")))) == {ONE, TWO}


def test_nothing_runs_when_nothing_changed(make_graph: Callable[..., Graph]) -> None:
    selection = select([ONE, "tests/test_unsure.py::test"], Changes(), make_graph(SOURCES))

    assert selection.nodeids == ()
    assert {choice.reason for choice in selection.left_out} == {"nothing changed"}


def test_who_is_unsure_runs_whatever_changed(make_graph: Callable[..., Graph]) -> None:
    selection = select(
        ["tests/test_unsure.py::test", "tests/gone.py::test", ONE],
        changed("two.py"),
        make_graph(SOURCES),
    )

    assert reasons(selection) == {
        "tests/test_unsure.py::test": (
            "not sure: load.py line 2: __import__ of what is only known when it runs"
        ),
        "tests/gone.py::test": "not sure: no file tests/gone.py in the checkout",
    }


@pytest.mark.parametrize(
    "path",
    [
        *("pyproject.toml", "ci/harness.toml", "ci/locks/unit-cpu.txt", "uv.lock", "pytest.ini"),
        *("setup.cfg", "requirements-dev.txt", "ext/fast.pyx", "sitecustomize.py", ".gitignore"),
    ],
)
def test_what_decides_how_tests_run_runs_everything(
    make_graph: Callable[..., Graph], path: str
) -> None:
    selection = chosen(make_graph({**SOURCES, "two.py": f"NAME = {path!r}"}), changed(path))

    assert reasons(selection) == dict.fromkeys((ONE, TWO), f"everything: {path} changed")


def test_what_git_cannot_tell_runs_everything(make_graph: Callable[..., Graph]) -> None:
    selection = chosen(make_graph(SOURCES), Changes({}, ("sub (a submodule)",)))

    assert set(reasons(selection)) == {ONE, TWO}


def test_another_file_runs_who_names_it(make_graph: Callable[..., Graph]) -> None:
    selection = chosen(make_graph(SOURCES, others=("data/rows.json",)), changed("data/rows.json"))

    assert reasons(selection) == {TWO: "data/rows.json changed, two.py names it"}


def test_another_file_that_nobody_names_runs_everything(make_graph: Callable[..., Graph]) -> None:
    selection = chosen(make_graph(SOURCES, others=("data/x.yaml",)), changed("data/x.yaml"))

    words = "everything: data/x.yaml changed, and nothing tells who reads it"
    assert reasons(selection) == dict.fromkeys((ONE, TWO), words)


def test_another_file_is_explained_by_a_test_of_any_suite(make_graph: Callable[..., Graph]) -> None:
    sources = {**SOURCES, "more/test_x.py": "open('data/x.yaml')"}
    graph = make_graph(sources, others=("data/x.yaml",))

    selection = select([ONE], changed("data/x.yaml"), graph, test_files=["more/test_x.py"])

    assert selection.nodeids == ()


def test_prose_runs_only_who_names_it(make_graph: Callable[..., Graph]) -> None:
    sources = {**SOURCES, "tests/test_one.py": "TEXT = ROOT / 'docs' / 'a.md'"}
    graph = make_graph(sources, others=("docs/a.md", "README.md", "LICENSE"))

    assert set(reasons(chosen(graph, changed("docs/a.md")))) == {ONE}
    assert reasons(chosen(graph, changed("README.md", "LICENSE"))) == {}


def seen(*tests: str) -> ImpactMap:
    ran = {
        "tests/test_one.py": frozenset({"test_one"}),
        "one.py": frozenset({"used"}),
        "tests/test_two.py": frozenset({"test_two"}),
        "two.py": frozenset[str](),
    }
    return ImpactMap("all", "0" * 40, {}, (Trace(frozenset(tests), ran),))


def test_with_a_map_a_change_of_a_function_that_did_not_run_is_spared(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(SOURCES)

    idle = chosen(graph, changed(one=frozenset({"idle"})), seen(ONE, TWO))
    used = chosen(graph, changed(one=frozenset({"used"})), seen(ONE, TWO))
    without = chosen(graph, changed(one=frozenset({"idle"})))

    assert reasons(idle) == {}
    assert idle.left_out[0].reason == (
        "no change in what ran with it: only in other functions of one.py"
    )
    # Both tests were in one item: one may use what the other left.
    assert set(reasons(used)) == {ONE, TWO}
    assert set(reasons(without)) == {ONE}


def test_a_test_without_evidence_runs_when_there_is_a_map(make_graph: Callable[..., Graph]) -> None:
    selection = chosen(make_graph(SOURCES), changed(one=frozenset({"idle"})), seen(ONE))

    assert reasons(selection) == {TWO: "the impact map has no evidence of it"}


def test_the_report_counts_and_groups(make_graph: Callable[..., Graph]) -> None:
    tests = [f"{ONE}[{number}]" for number in range(9)]

    selection = select([*tests, TWO], changed("one.py"), make_graph(SOURCES))

    assert selection.lines() == (
        "9 of 10 tests selected, 1 left out",
        "selected: 9 x one.py changed: tests/test_one.py -> one.py",
        "left out: 1 x no change in the 2 files it reaches",
    )


HARNESS = """
[project]
name = "tiny"
pythonpath = ["src"]

[workers.plain]

[suites.sums]
paths = ["tests"]
worker = "plain"
"""


def test_a_suite_is_chosen_from_by_revision(empty_repository: Repository) -> None:
    repository = empty_repository
    sources = {
        "ci/harness.toml": HARNESS,
        "src/one.py": "def one():\n    return 1\n",
        "src/two.py": "def two():\n    return 2\n",
        "tests/test_one.py": "def test_one():\n    import one\n",
        "tests/test_two.py": "from two import two\n",
    }
    first = repository.commit(sources)
    repository.write({"src/one.py": "def one():\n    return 3\n"})
    harness = load(repository.root)

    selection = select_since(harness, "main", "sums", [ONE, TWO], None)

    assert reasons(selection) == {ONE: "src/one.py changed: tests/test_one.py -> src/one.py"}
    assert selection.lines()[1] == f"1 files changed since {first[:12]} (where main was left)"

    repository.commit({})
    stale = ImpactMap("sums", first, {}, seen(ONE, TWO).traces)
    again = select_since(harness, "HEAD", "sums", [ONE, TWO], stale)

    # Nothing changed since the head, but something did since the map was made.
    assert set(reasons(again)) == {ONE, TWO}
    assert any(first[:12] in note for note in again.notes)


def test_an_unknown_revision_or_suite_is_named(empty_repository: Repository) -> None:
    empty_repository.commit({"ci/harness.toml": HARNESS})
    harness = load(empty_repository.root)

    with pytest.raises(HarnessError, match="no such commit"):
        select_since(harness, "nowhere", "sums", [ONE], None)
    with pytest.raises(HarnessError, match="no such suite"):
        select_since(harness, "main", "sum", [ONE], None)
