"""The harness installed as its users install it, and foreign projects that it is to test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exacthead.workers.index import read_indexes
from exacthead.workers.uv import run_uv
from unit.foreign.checkout import SHARDS, Checkout, Finished, unpack, user_environment
from unit.foreign.projects import CLICK, DATEUTIL, Project

ROOT = Path(__file__).parents[2]
# What tests leave in a checkout; source distributions come without such a file.
IGNORED = ".hypothesis/\n"


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
        [*pip, "--no-deps", "--reinstall-package", "exacthead", str(ROOT / "ci")],
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
def checkout(project: Project, harness: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A repository of the project's files with a harness.toml, its lock written."""
    folder = tmp_path_factory.mktemp("checkout")
    made = Checkout(project, unpack(project, folder), harness)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", "--all", "--force")
    made.git("commit", "--quiet", "--message", f"{project.name} {project.version}")
    (made.root / ".gitignore").write_text(IGNORED, encoding="utf-8")
    code, printed = made.exacthead("init")
    assert code == 0, printed
    declaration = made.root / "ci/harness.toml"
    written = declaration.read_text(encoding="utf-8")
    # What it could read is right as it stands; it is kept beside, for the tests that say so.
    made.written.write_text(written, encoding="utf-8")
    declaration.write_text(project.completed(written), encoding="utf-8")
    code, printed = made.exacthead("lock")
    assert code == 0, printed
    made.git("add", ".gitignore", "ci", "noxfile.py")
    made.git("commit", "--quiet", "--message", "Test it with Exacthead")
    return made


@pytest.fixture(scope="module")
def sharded(checkout: Checkout) -> Finished:
    """The run of all shards."""
    return checkout.finished("unit", "--shards", str(SHARDS))


@pytest.fixture(scope="module")
def plain(
    checkout: Checkout, sharded: Finished, tmp_path_factory: pytest.TempPathFactory
) -> Finished:
    """A run of pytest alone, in the same worker."""
    assert sharded.folder.exists()  # and so the worker is ready
    folder = tmp_path_factory.mktemp("plain")
    return Finished(folder, checkout.plain(folder), "")
