"""Every test whose outcome a change of a function changes is selected: measured, not argued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.impact.select import select_since
from unit.exacthead.conftest import Repository
from unit.exacthead.impact.project import TestedProject, mutations

if TYPE_CHECKING:
    from exacthead.impact.map import ImpactMap

SOURCES = {
    # Everything imports everything, so that imports alone can spare nobody.
    "pkg/__init__.py": "from pkg import plain, cached, child, late, named\n",
    "pkg/plain.py": """
def one():
    return 1

def two():
    return one() + 1

class Box:
    @property
    def three(self):
        return 3
""",
    "pkg/cached.py": """
import functools

def source():
    return 4

@functools.cache
def value():
    return source()

def shown():
    return value()
""",
    "pkg/child.py": """
from pkg.deep import depth

def answer():
    return depth()

if __name__ == "__main__":
    print(answer())
""",
    "pkg/deep.py": """
def depth():
    return 5
""",
    "pkg/late.py": """
def bring():
    from pkg import lazy
    return lazy.LIMIT
""",
    "pkg/lazy.py": """
def limit():
    return 6

LIMIT = limit()
""",
    "pkg/named.py": """
import importlib

def load(name):
    return importlib.import_module("pkg." + name).hidden()
""",
    "pkg/by_name.py": """
def hidden():
    return 7
""",
    "pkg/world.py": """
def wide():
    return 8
""",
}
TESTS = {
    "tests/conftest.py": """
import pytest
from pkg.world import wide

@pytest.fixture(scope="session")
def world():
    return wide()
""",
    "tests/test_plain.py": """
from pkg import plain

def test_two():
    assert plain.two() == 2

def test_three():
    assert plain.Box().three == 3
""",
    "tests/test_cached.py": """
from pkg.cached import shown, value

def test_first():
    assert value() == 4

def test_second():
    assert shown() == 4
""",
    "tests/test_child.py": """
import subprocess, sys

def test_answer():
    said = subprocess.run([sys.executable, "-m", "pkg.child"], capture_output=True, check=True)
    assert said.stdout.split() == [b"5"]

def test_answer_out_of_sight():
    root = __file__.rsplit("/", 2)[0]
    code = f"import sys; sys.path.insert(0, {root!r}); from pkg import child; print(child.answer())"
    said = subprocess.run([sys.executable, "-I", "-c", code], env={}, capture_output=True)
    assert said.stdout.split() == [b"5"]
""",
    "tests/test_late.py": """
from pkg.late import bring

def test_bring():
    assert bring() == 6

def test_bring_again():
    assert bring() == 6
""",
    "tests/test_named.py": """
from pkg.named import load

def test_load():
    assert load("by" + "_name") == 7
""",
    "tests/test_world.py": """
def test_world(world):
    assert world == 8

def test_world_again(world):
    assert world == 8
""",
}
HARNESS = """
[project]
name = "tiny"

[workers.plain]

[suites.all]
paths = ["tests"]
worker = "plain"
"""
MUTATIONS = mutations(SOURCES)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TestedProject:
    repository = Repository(tmp_path_factory.mktemp("soundness") / "checkout")
    repository.root.mkdir()
    repository.git("init", "--quiet", "--initial-branch=main")
    ignored = "/.cache/\n/runs/\n__pycache__/\n"
    repository.commit({"ci/harness.toml": HARNESS, ".gitignore": ignored, **SOURCES, **TESTS})
    return TestedProject(repository)


@pytest.fixture(scope="module")
def impact_map(project: TestedProject, tmp_path_factory: pytest.TempPathFactory) -> ImpactMap:
    found = project.measure(tmp_path_factory.mktemp("items"))
    assert [trace.partial for trace in found.traces] == [""] * len(found.traces)
    return found


@pytest.fixture(scope="module")
def before(project: TestedProject) -> dict[str, str]:
    found = project.outcomes("tests")
    assert set(found.values()) == {"PASSED"}
    return found


def selected(
    project: TestedProject, tests: dict[str, str], impact_map: ImpactMap | None
) -> set[str]:
    harness = load(project.root)
    return set(select_since(harness, "HEAD", "all", list(tests), impact_map).nodeids)


@pytest.mark.parametrize("number", range(len(MUTATIONS)))
def test_a_changed_function_changes_no_outcome_of_a_test_that_is_left_out(
    project: TestedProject, impact_map: ImpactMap, before: dict[str, str], number: int
) -> None:
    name, text = MUTATIONS[number]
    project.repository.write({name: text})
    try:
        after = project.outcomes("tests")
        with_map = selected(project, before, impact_map)
        without = selected(project, before, None)
    finally:
        project.repository.write({name: SOURCES[name]})

    assert after.keys() == before.keys()
    touched = {nodeid for nodeid in before if after[nodeid] != before[nodeid]}
    assert touched, "a change that no test notices proves nothing"
    assert touched <= with_map
    assert touched <= without
    # Nothing here runs with everything.
    assert with_map < set(before)


def test_what_only_runs_elsewhere_spares_the_others(
    project: TestedProject, impact_map: ImpactMap, before: dict[str, str]
) -> None:
    """The functions of one file matter to the tests of one file, and a remark to nobody."""
    name = "pkg/plain.py"
    runs = {}
    for what, text in {
        "function": SOURCES[name].replace("return 3", "return 4"),
        "remark": SOURCES[name].replace("return 3", "return 3  # three"),
        "import": SOURCES[name] + "\nLIMIT = 1\n",
    }.items():
        project.repository.write({name: text})
        runs[what] = {each.split("::")[0] for each in selected(project, before, impact_map)}
    project.repository.write({name: SOURCES[name]})

    everyone = {each.split("::")[0] for each in before}
    assert runs["import"] == everyone
    # What runs in a process that may not have been measured counts as a whole.
    assert runs["function"] == {"tests/test_plain.py", "tests/test_child.py"}
    assert runs["remark"] == {"tests/test_child.py"}
