"""Init in a generated project: what it writes works as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

ROOT = Path(__file__).parents[3]
PYPROJECT = """
[project]
name = "small-sums"
requires-python = ">=3.8"
dependencies = []

[dependency-groups]
test = ["pytest>=8"]

[tool.pytest.ini_options]
addopts = "-ra"
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "src/small_sums/__init__.py": (
        "def add(a, b):\n    return a + b\n\n\ndef less(a, b):\n    return a - b\n"
    ),
    "tests/test_add.py": (
        "from small_sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    ),
    "tests/deep/test_more.py": (
        "import pytest\n\n\n@pytest.mark.skip(reason='later')\ndef test_it():\n    pass\n\n\n"
        "def test_other():\n    assert True\n"
    ),
}


@pytest.fixture
def project(empty_repository: Repository) -> Repository:
    (empty_repository.root / ".gitignore").write_text("*.pyc", encoding="utf-8")
    empty_repository.commit(FILES)
    return empty_repository


def test_a_project_is_tested_with_what_init_writes(project: Repository) -> None:
    code, printed = project.exacthead("init", "--provided", sys.executable)
    assert code == 0, printed
    assert printed.splitlines()[:2] == ["wrote ci/harness.toml", "wrote noxfile.py"]
    harness = load(project.root)
    assert harness.project.pythonpath == ("src",)
    assert harness.coverage.sources == ("src/small_sums",)
    assert harness.workers["tests"].requirements == ("pytest>=8", "coverage")
    assert harness.suites["tests"].paths == ("tests",)
    ignored = (project.root / ".gitignore").read_text(encoding="utf-8")
    assert ignored == "*.pyc\n/.cache/\n/runs/\n__pycache__/\n"

    # Through the noxfile that it wrote, as a person would.
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "Test it with Exacthead")
    done = subprocess.run(
        [sys.executable, "-m", "nox", "-s", "unit", "--", "--shards", "2"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT / "ci"), "NOX_CACHE_DIR": ".cache/nox"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 0 failed, 1 skipped\n" in done.stdout + done.stderr
    run = project.run_folder()
    provenance = json.loads((run / "provenance.json").read_text(encoding="utf-8"))
    assert (provenance["dirty"], provenance["changed"]) == (False, [])
    report = (run / "summary.md").read_text(encoding="utf-8")
    assert "3 of 4 lines" in report
    assert project.exacthead("lint")[0] == 0


def test_a_provided_environment_has_the_python_that_it_has(project: Repository) -> None:
    path = project.root / "venv" / "python"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 3.42\n", encoding="utf-8")
    # Not one that runs: nothing is written.
    code, printed = project.exacthead("init", "--provided", "venv/python")
    assert code == 2
    assert "name the interpreter of an environment that runs" in printed
    assert not (project.root / "ci").exists()

    path.chmod(0o755)
    code, printed = project.exacthead("init", "--provided", "venv/python")

    assert code == 0, printed
    assert load(project.root).workers["tests"].python == "3.42"


def test_the_sessions_of_its_noxfile_say_what_they_do(project: Repository) -> None:
    assert project.exacthead("init")[0] == 0

    done = subprocess.run(
        [sys.executable, "-m", "nox", "--list"],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "* unit -> Every suite, each in its own worker." in done.stdout
    for name in ("lock", "lint", "reproduce"):
        assert f"- {name} -> " in done.stdout


def test_nothing_that_is_there_is_overwritten(project: Repository) -> None:
    project.write({"noxfile.py": "mine = 1\n", ".gitignore": "/runs/\n/.cache/\n__pycache__/\n"})
    code, printed = project.exacthead("init")
    assert code == 0
    assert "kept noxfile.py" in printed
    assert ".gitignore" not in printed
    assert "python -m exacthead lock" in printed
    assert (project.root / "noxfile.py").read_text(encoding="utf-8") == "mine = 1\n"

    text = (project.root / "ci/harness.toml").read_bytes()
    code, printed = project.exacthead("init")
    assert code == 2
    assert "harness.toml is there" in printed
    assert (project.root / "ci/harness.toml").read_bytes() == text


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"pyproject.toml": None}, "no such file"),
        ({"pyproject.toml": "[project\n"}, "mend its syntax"),
        ({"pyproject.toml": PYPROJECT.replace(">=3.8", "<3")}, "none of 3.8 to 3."),
        ({"pyproject.toml": PYPROJECT.replace(">=3.8", "three")}, "requires-python"),
        ({"tests/test_add.py": None, "tests/deep/test_more.py": None}, "no file that is called"),
    ],
)
def test_a_repository_that_says_too_little_is_refused_and_nothing_is_written(
    project: Repository, files: dict[str, str | None], words: str
) -> None:
    for name, text in files.items():
        if text is None:
            (project.root / name).unlink()
        else:
            project.write({name: text})

    code, printed = project.exacthead("init")

    assert code == 2, printed
    assert words in printed
    assert not (project.root / "ci").exists()
    assert not (project.root / "noxfile.py").exists()
