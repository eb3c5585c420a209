"""What is read from projects of many kinds, and that a harness.toml made of it loads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.config import load
from exacthead.init.command import harness_text
from exacthead.init.project import Project, read_project
from exacthead.suites import orphans, repository_files

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

TEST = "def test_it():\n    pass\n"


def read(repository: Repository, pyproject: str, *tests: str, **files: str) -> Project:
    """A project with these files, read; what is written from it loads, and no test is outside."""
    repository.write({"pyproject.toml": pyproject, **dict.fromkeys(tests, TEST), **files})
    project = read_project(repository.root)
    repository.write({"ci/harness.toml": harness_text(project)})
    harness = load(repository.root)
    assert orphans(harness, repository_files(harness)) == []
    return project


NAMED = '[project]\nname = "A-lib.x"\n'


def test_test_groups_are_taken_with_what_they_include_and_the_project_itself_never(
    empty_repository: Repository,
) -> None:
    text = NAMED + (
        'dependencies = ["attrs>=20"]\n'
        "[project.optional-dependencies]\n"
        'Fast = ["orjson"]\ntests = ["a_lib.x[fast]", "pytest-mock"]\nunused = ["torch"]\n'
        "[dependency-groups]\n"
        'base = ["pytest==9.2.0"]\n'
        'tests = [{include-group = "Base"}, "hypothesis"]\ndev = ["ruff"]\n'
    )

    found = read(empty_repository, text, "tests/test_a.py").requirements

    assert found == (
        *("attrs>=20", "orjson", "pytest-mock", "pytest==9.2.0", "hypothesis", "coverage"),
    )


def test_where_no_group_is_for_tests_the_developers_is_taken(empty_repository: Repository) -> None:
    text = NAMED + '[dependency-groups]\ndev = ["coverage[toml]>7"]\n'

    assert read(empty_repository, text, "test_a.py").requirements == ("coverage[toml]>7", "pytest")


def test_dependencies_that_only_a_build_knows_are_said_to_be_unknown(
    empty_repository: Repository,
) -> None:
    project = read(empty_repository, NAMED + 'dynamic = ["dependencies"]\n', "test_a.py")

    assert project.unknown == ("its dependencies",)
    assert "# Not known: its dependencies" in harness_text(project)


@pytest.mark.parametrize(
    ("files", "pythonpath", "sources"),
    [
        (("src/a_lib_x/__init__.py", "src/other/__init__.py"), "src", ("src/a_lib_x",)),
        (("src/other/__init__.py", "src/more/__init__.py"), "src", ("src/more", "src/other")),
        (("a_lib_x/__init__.py", "a_lib_x/in/__init__.py"), ".", ("a_lib_x",)),
        (("one/__init__.py", "docs/__init__.py", "tests/__init__.py"), ".", ("one",)),
        (("src/single.py",), "src", ()),
        (("single.py",), ".", ()),
    ],
)
def test_packages_are_found_in_src_or_at_the_root(
    empty_repository: Repository,
    files: tuple[str, ...],
    pythonpath: str,
    sources: tuple[str, ...],
) -> None:
    project = read(empty_repository, NAMED, "tests/test_a.py", **dict.fromkeys(files, ""))

    assert (project.pythonpath, project.sources) == (pythonpath, sources)


@pytest.mark.parametrize(
    ("tests", "paths"),
    [
        (("tests/test_a.py", "tests/deep/a_test.py"), ("tests",)),
        (("test/x/test_a.py", "lib/tests/x/test_b.py"), ("lib/tests", "test")),
        (("test_a.py", "lib/test_b.py", "lib/more/test_c.py"), ("lib", "test_a.py")),
    ],
)
def test_paths_are_the_folders_that_hold_tests(
    empty_repository: Repository, tests: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    assert read(empty_repository, NAMED, *tests).paths == paths


PLACES = {
    "pyproject.toml": (
        '[tool.pytest.ini_options]\ntestpaths = ["checks*"]\npython_files = "c_*.py"\n'
    ),
    "pytest.ini": "[pytest]\ntestpaths = checks*\npython_files = c_*.py\n",
    "tox.ini": "[pytest]\ntestpaths = checks*\npython_files = c_*.py\n",
    "setup.cfg": "[tool:pytest]\ntestpaths = checks*\npython_files = c_*.py\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_where_pytest_is_configured_that_counts(empty_repository: Repository, place: str) -> None:
    pyproject = NAMED + (PLACES[place] if place == "pyproject.toml" else "")
    files = {} if place == "pyproject.toml" else {place: PLACES[place]}

    project = read(
        empty_repository, pyproject, "checks_a/c_1.py", "checks_b/c_2.py", "docs/c_3.py", **files
    )

    assert project.paths == ("checks_a", "checks_b")
    assert project.test_files == ("c_*.py",)
    assert project.not_tests == ("docs",)


@pytest.mark.parametrize(
    ("addopts", "arguments"),
    [("-n auto", ("-n", "0")), ("-ra -n4", ("-n", "0")), ("--no-header -ra", ())],
)
def test_tests_that_pytest_would_distribute_are_not(
    empty_repository: Repository, addopts: str, arguments: tuple[str, ...]
) -> None:
    text = f'{NAMED}[tool.pytest]\naddopts = ["{addopts.replace(" ", chr(34) + ", " + chr(34))}"]\n'

    assert read(empty_repository, text, "test_a.py").arguments == arguments


@pytest.mark.parametrize(
    ("asked", "python"),
    [
        (">=3.8", f"3.{sys.version_info.minor}"),
        ("<3.10", "3.9"),
        (">=3.9.2,<3.10", "3.9"),
        ("==3.10.*", "3.10"),
        ("", f"3.{sys.version_info.minor}"),
    ],
)
def test_the_python_is_the_harness_s_own_where_the_project_allows_it(
    empty_repository: Repository, asked: str, python: str
) -> None:
    text = f'{NAMED}requires-python = "{asked}"\n' if asked else NAMED

    assert read(empty_repository, text, "test_a.py").python == python


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    paths=st.lists(st.text("abc \"'\\é", min_size=1), min_size=1),
)
def test_whatever_names_hold_the_file_says_the_same(
    tmp_path_factory: pytest.TempPathFactory, text: str, paths: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp()
    project = Project(
        name=text,
        python="3.13",
        requirements=("pytest",),
        unknown=(),
        pythonpath=".",
        sources=tuple(paths),
        paths=tuple(paths),
        not_tests=(text,),
        test_files=(),
        arguments=(text,),
    )
    (root / "ci").mkdir(exist_ok=True)
    (root / "ci/harness.toml").write_text(harness_text(project), encoding="utf-8")

    harness = load(root)

    assert harness.project.name == text
    assert harness.suites["tests"].paths == tuple(paths)
    assert harness.suites["tests"].arguments == (text,)
