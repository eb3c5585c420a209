"""The harness installed as its users install it, and foreign projects that it is to test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exacthead.environ import clean_environment
from exacthead.workers.index import read_indexes
from exacthead.workers.uv import run_uv
from unit.foreign.checkout import Checkout, Told, run, told, unpack, user_environment
from unit.foreign.projects import CLICK, DATEUTIL, Project

ROOT = Path(__file__).parents[2]
SHARDS = 3


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment into which the harness is installed."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    indexes = read_indexes(user_environment())
    python = folder / "bin" / "python"
    pip = ["pip", "install", "--python", str(python), *indexes.uv_arguments()]
    for arguments in (
        ["venv", "--no-project", "--python", sys.executable, str(folder)],
        [*pip, "--requirements", str(ROOT / "ci/locks/harness.txt")],
        [*pip, "--no-deps", str(ROOT / "ci")],
    ):
        run_uv(
            arguments,
            indexes.uv_environment(),
            asked="the harness installed",
            todo="make the package index reachable",
        )
    return python


@pytest.fixture(scope="module", params=[CLICK, DATEUTIL], ids=lambda project: project.name)
def project(request: pytest.FixtureRequest) -> Project:
    """Each of the foreign projects."""
    found: Project = request.param
    return found


@pytest.fixture(scope="module")
def checkout(
    project: Project, harness: Path, tmp_path_factory: pytest.TempPathFactory
) -> Checkout:
    """A repository of the project's files with a harness.toml, its lock written."""
    folder = tmp_path_factory.mktemp("checkout")
    made = Checkout(project, unpack(project, folder), harness)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", "--all", "--force")
    made.git("commit", "--quiet", "--message", f"{project.name} {project.version}")
    (made.root / "ci").mkdir()
    (made.root / "ci/harness.toml").write_text(project.harness(), encoding="utf-8")
    code, printed = made.exacthead("lock")
    assert code == 0, printed
    made.git("add", "ci")
    made.git("commit", "--quiet", "--message", "Test it with Exacthead")
    return made


@pytest.fixture(scope="module")
def sharded(checkout: Checkout) -> Path:
    """The run folder of all shards."""
    code, printed = checkout.exacthead("unit", "--shards", str(SHARDS))
    assert code == 0, printed
    return checkout.run_folder()


@pytest.fixture(scope="module")
def plain(checkout: Checkout, sharded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results and the coverage of pytest alone, in the same worker.

    It runs in files of its own: what it leaves there is no change of the checkout.
    """
    assert sharded  # the worker is ready
    folder = tmp_path_factory.mktemp("plain")
    root = unpack(checkout.project, folder)
    code, printed = run(
        [
            *(str(checkout.worker()), "-m", "coverage", "run"),
            *(f"--source={checkout.project.source}", f"--data-file={folder}/coverage"),
            *("-m", "pytest", "tests", "-p", "no:cacheprovider", f"--junitxml={folder}/junit.xml"),
        ],
        root,
        {
            **clean_environment(user_environment()),
            "PYTHONPATH": str(root / "src"),
            "COVERAGE_CORE": "sysmon",
        },
    )
    assert code == 0, printed
    return folder


@pytest.fixture(scope="module")
def expected(plain: Path) -> Told:
    """What pytest alone says of each test."""
    return told(plain / "junit.xml")
