from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.impact.imports import WHOLE, Evidence, Graph
from exacthead.impact.source import ON_IMPORT

if TYPE_CHECKING:
    from collections.abc import Callable

TEST = "tests/test_x.py"


def reached(graph: Graph) -> set[str]:
    return set(graph.reach(TEST).parts) - {TEST}


@pytest.mark.parametrize(
    ("test", "files"),
    [
        ("import pkg.a", {"pkg/__init__.py", "pkg/a.py", "pkg/b.py"}),
        ("from pkg import b", {"pkg/__init__.py", "pkg/b.py"}),
        ("def test_x():\n    from pkg import b", {"pkg/__init__.py", "pkg/b.py"}),
        ("run([python, '-m', 'pkg.b'])", {"pkg/__init__.py", "pkg/b.py"}),
        ("run([python, ROOT / 'tools' / 'tool.py'])", {"tools/tool.py"}),
        ("run(['tools/run.sh'])", set()),
        ("copytree(root / 'tools', tmp)", {"tools/tool.py"}),
        ("PROGRAM = '''\nfrom pkg.b import f\n'''", {"pkg/__init__.py", "pkg/b.py"}),
        ("import os", set()),
    ],
)
def test_a_test_reaches_what_it_imports_and_names(
    make_graph: Callable[..., Graph], test: str, files: set[str]
) -> None:
    graph = make_graph(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "def f():\n    from .b import g\n",
            "pkg/b.py": "",
            "tools/tool.py": "",
            "elsewhere/c.py": "",
            TEST: test,
        }
    )

    assert reached(graph) == files


def test_every_conftest_above_counts_and_the_packages_around_a_test(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(
        {
            "conftest.py": "import a",
            "tests/conftest.py": "import b",
            "tests/__init__.py": "import c",
            "others/conftest.py": "import d",
            **{f"{name}.py": "" for name in "abcd"},
            TEST: "",
        }
    )

    assert reached(graph) == {
        *("conftest.py", "tests/conftest.py", "tests/__init__.py", "a.py", "b.py", "c.py")
    }


def test_a_plugin_that_an_option_names_counts_for_every_test(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph({"plug.py": "import a", "a.py": "", TEST: ""})
    with_plugin = Graph(graph._root, graph.layout, plugins=["plug.py"])

    assert reached(graph) == set()
    assert reached(with_plugin) == {"plug.py", "a.py"}


def test_the_way_to_a_file_is_told(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph({"a.py": "import b", "b.py": "import a, c", "c.py": "", TEST: "import a"})

    assert graph.reach(TEST).way("c.py") == "tests/test_x.py -> a.py -> b.py -> c.py"


def test_what_cannot_be_told_is_unsure_for_whoever_reaches_it(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(
        {
            "load.py": "def load(name):\n    return __import__(name)\n",
            "broken.py": "def :",
            "use.py": "import load",
            "tests/test_broken.py": "import broken",
            "tests/test_sure.py": "import os",
            TEST: "import use",
        }
    )

    assert graph.reach(TEST).unsure == [
        "load.py line 2: __import__ of what is only known when it runs"
    ]
    assert "SyntaxError" in graph.reach("tests/test_broken.py").unsure[0]
    assert graph.reach("tests/test_sure.py").unsure == []


def test_a_deleted_file_is_still_reached_by_who_imports_it(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph({TEST: "def test_x():\n    import gone"}, others=("gone.py",))

    assert reached(graph) == {"gone.py"}


def test_a_file_that_is_no_python_is_named_by_the_nearest_source(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(
        {"a.py": "ROWS = 'data'", TEST: "import a", "tests/test_y.py": ""},
        others=("data/rows.json", "data/more/x.yaml", "docs/a.md"),
    )

    assert graph.reach(TEST).mentioned == {"data/rows.json": "a.py", "data/more/x.yaml": "a.py"}
    assert graph.reach("tests/test_y.py").mentioned == {}
    assert graph.reach_all(["tests/test_y.py", TEST]).mentioned == graph.reach(TEST).mentioned


def test_data_that_bear_a_test_file_s_name_are_its(make_graph: Callable[..., Graph]) -> None:
    others = ("tests/test_x/rows.json", "tests/snapshots/test_x.case.txt", "tests/test_y/rows.json")
    graph = make_graph({TEST: ""}, others=others)

    assert set(graph.reach(TEST).mentioned) == set(others[:2])


@pytest.mark.parametrize(
    ("test", "files"),
    [
        ("run(['bash', ROOT / 'jobs' / 'job.sh'])", {"jobs/job.sh", "pkg/a.py", "pkg/b.py"}),
        ("run('jobs/job.sh one')", {"jobs/job.sh", "pkg/a.py", "pkg/b.py"}),
        ("load('recipes/big.yaml')", {"recipes/big.yaml", "recipes/base.yaml", "data/rows.json"}),
        ("run('job')", set()),
        ("open('docs/a.md')", set()),
    ],
)
def test_what_a_script_or_a_file_of_data_names_counts_too(
    make_graph: Callable[..., Graph], test: str, files: set[str]
) -> None:
    graph = make_graph(
        {
            "pkg/a.py": "import pkg.b",
            "pkg/b.py": "",
            "jobs/job.sh": "exec python -m pkg.a one\n",
            "recipes/big.yaml": "defaults: [base]\n",
            "recipes/base.yaml": "data: data/rows.json\n",
            "data/rows.json": "[]",
            "docs/a.md": "Run `python -m pkg.a`.",
            TEST: test,
        }
    )

    assert reached(graph) == files


def test_a_script_that_runs_what_a_variable_names_is_unsure(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph({"job.sh": 'python -m "$MODULE"\n', TEST: "run('./job.sh')"})

    assert graph.reach(TEST).unsure == ["job.sh: `-m` of what is only known when it runs"]


def test_who_names_a_file_that_names_a_changed_one_reads_that(
    make_graph: Callable[..., Graph],
) -> None:
    sources = {"recipe.yaml": "data: rows.jsonl\n", TEST: "load('recipe.yaml')"}
    graph = make_graph(sources, others=("data/rows.jsonl",))

    assert graph.reach(TEST).mentioned == {"data/rows.jsonl": "recipe.yaml"}


def test_what_is_no_text_or_too_long_leads_nowhere(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph({"a.bin": "", "b.txt": "pkg.py " * 200_000, "pkg.py": "", TEST: ""})
    (graph._root / "a.bin").write_bytes(b"\xff\xfe pkg.py")
    (graph._root / TEST).write_text("open('a.bin'), open('b.txt')", encoding="utf-8")

    assert reached(graph) == {"a.bin", "b.txt"}


SOURCES = {
    "pkg/a.py": "def ran():\n    import pkg.b\n\ndef idle():\n    import pkg.c\n",
    "pkg/b.py": "def f():\n    pass\n",
    "pkg/c.py": "",
    TEST: "import pkg.a\ndef test_x():\n    pkg.a.ran()\n",
}
RAN = {TEST: frozenset({"test_x"}), "pkg/a.py": frozenset({"ran"}), "pkg/b.py": frozenset[str]()}


def evidence(**more: frozenset[str]) -> Evidence:
    return Evidence({**RAN, **more}, frozenset({*SOURCES}))


def test_with_evidence_only_imports_and_what_ran_count(make_graph: Callable[..., Graph]) -> None:
    reach = make_graph(SOURCES).reach(TEST, evidence())

    assert reach.parts == {
        TEST: {ON_IMPORT, "test_x"},
        "pkg/a.py": {ON_IMPORT, "ran"},
        "pkg/b.py": {ON_IMPORT},
    }


def test_of_a_file_that_nothing_measured_every_part_counts(
    make_graph: Callable[..., Graph],
) -> None:
    seen = Evidence({"pkg/b.py": frozenset()}, frozenset({"pkg/b.py"}))

    reach = make_graph(SOURCES).reach(TEST, seen)

    assert reach.parts["pkg/a.py"] == {ON_IMPORT, "ran", "idle"}
    assert set(reach.parts) == {*SOURCES}


def test_what_ran_counts_though_nothing_imports_it(make_graph: Callable[..., Graph]) -> None:
    sources = {**SOURCES, "hidden.py": "def f():\n    pass\n"}
    seen = Evidence({**RAN, "hidden.py": frozenset({"f"})}, frozenset(sources))

    assert make_graph(sources).reach(TEST, seen).parts["hidden.py"] == {ON_IMPORT, "f"}


def test_evidence_settles_an_import_that_was_only_known_when_it_ran(
    make_graph: Callable[..., Graph],
) -> None:
    sources = {**SOURCES, "pkg/b.py": "def f(name):\n    return __import__(name)\n"}
    seen = Evidence({**RAN, "pkg/b.py": frozenset({"f"})}, frozenset(sources))

    assert make_graph(sources).reach(TEST, seen).unsure == []
    assert make_graph(sources).reach(TEST).unsure != []


def test_what_a_running_function_names_counts_as_a_whole(make_graph: Callable[..., Graph]) -> None:
    sources = {
        **SOURCES,
        "pkg/a.py": "def ran():\n    run('python -m pkg.b')\n\ndef idle():\n    run('-m pkg.c')\n",
        "pkg/b.py": "import pkg.d\n",
        "pkg/d.py": "def f():\n    pass\n",
    }

    reach = make_graph(sources).reach(TEST, Evidence(RAN, frozenset(sources)))

    # Another process may not have been measured, so that nothing there is known not to run.
    assert reach.parts["pkg/b.py"] == reach.parts["pkg/d.py"] == WHOLE
    assert "pkg/c.py" not in reach.parts


@pytest.mark.parametrize(
    "change",
    [
        {"pkg/a.py": "import ray\n" + SOURCES["pkg/a.py"]},
        {"pkg/a.py": SOURCES["pkg/a.py"].replace("import pkg.b", "import pkg.b, multiprocessing")},
        {TEST: "from hypothesis import given\n" + SOURCES[TEST]},
    ],
)
def test_evidence_of_a_part_at_best_is_only_added_to_the_imports(
    make_graph: Callable[..., Graph], change: dict[str, str]
) -> None:
    sources = {**SOURCES, "hidden.py": "", **change}
    seen = Evidence({**RAN, "hidden.py": frozenset()}, frozenset(sources))

    reach = make_graph(sources).reach(TEST, seen)

    assert reach.parts == dict.fromkeys(sources, WHOLE)
    assert reach.notes[0].startswith("judged by imports alone: ")


def test_partial_evidence_is_only_added_to_the_imports(make_graph: Callable[..., Graph]) -> None:
    sources = {**SOURCES, "hidden.py": ""}
    ran = {**RAN, "hidden.py": frozenset[str]()}

    reach = make_graph(sources).reach(TEST, Evidence(ran, frozenset(sources), "a process was lost"))

    assert reach.parts == dict.fromkeys(sources, WHOLE)
    assert reach.notes == ["judged by imports alone: a process was lost"]


def test_a_library_that_was_imported_and_not_used_casts_no_doubt(
    make_graph: Callable[..., Graph],
) -> None:
    sources = {**SOURCES, "pkg/b.py": "import ray\ndef f():\n    pass\n"}

    assert make_graph(sources).reach(TEST, evidence()).notes == []
