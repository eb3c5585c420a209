"""The main job in its real workers, started so that tests may break it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from unit.chaos.tree import MARKER, ROOT, Disk, Session, Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECIPE = "functional/recipes/gym_training.yaml"
ROLES = ("policy", "generation", "gym")

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="session", autouse=True)
def orphans_come_here() -> None:
    """Whatever a killed process leaves behind becomes a child of this process."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


_MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a sentence about what was measured, for the end of the log."""
    lines = request.config.stash.setdefault(_MEASURED, [])
    return lambda sentence: lines.append(f"{request.node.name}: {sentence}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


@pytest.fixture(scope="session")
def pythons() -> dict[str, str]:
    """The interpreter of each role's worker."""
    variables = {role: f"EXACTHEAD_PYTHON_{role.upper()}" for role in ROLES}
    missing = [name for name in variables.values() if name not in os.environ]
    assert not missing, f"run these tests by ./noxw -s chaos, which sets {', '.join(missing)}"
    return {role: os.environ[name] for role, name in variables.items()}


def temporary_folder() -> Path:
    """A folder whose path is short enough for Ray's sockets; the suite's item removes it too."""
    return Path(tempfile.mkdtemp(prefix="c-", dir=os.environ.get("RAY_TMPDIR", "/tmp")))


def environment(token: str, temporary: Path) -> dict[str, str]:
    """The variables of one command; runs share nothing but the machine."""
    # The harness's marks are those of the suite's own item.
    kept = {name: text for name, text in os.environ.items() if not name.startswith("EXACTHEAD_")}
    return {
        **kept,
        MARKER: token,
        "TMPDIR": str(temporary),
        "RAY_TMPDIR": str(temporary),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
    }


@pytest.fixture
def train(pythons: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Training]]:
    """A function that starts a run of the main job's recipe; keys are given as ``key=value``."""
    started: list[Training] = []

    def start(*overrides: str, folder: Path | None = None) -> Training:
        number = len(started)
        run_dir = folder or tmp_path / f"run-{number}"
        token, temporary, log = uuid.uuid4().hex, temporary_folder(), tmp_path / f"log-{number}"
        command = [pythons["policy"], "-m", "posttrain.train", RECIPE, f"run.dir={run_dir}"]
        command += [f"interpreters.{role}={python}" for role, python in pythons.items()]
        stacks = tmp_path / f"stacks-{number}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, *overrides],
                cwd=ROOT,
                env={
                    **environment(token, temporary),
                    "PYTHONPATH": str(ROOT),
                    "EXACTHEAD_STACKS_DIR": str(stacks),
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(Training(process, log, token, temporary, run_dir, stacks))
        return started[-1]

    yield start
    for run in started:
        run.end()
        shutil.rmtree(run.temporary, ignore_errors=True)


@pytest.fixture
def noxw(
    pythons: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], Session]]:
    """A function that starts the main job through the harness, as the README says.

    The run folders of a test that passes are removed: they are no runs of anybody's interest.
    """
    started: list[Session] = []
    failed = request.session.testsfailed

    def start() -> Session:
        token, temporary = uuid.uuid4().hex, temporary_folder()
        log = tmp_path / f"session-{len(started)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [ROOT / "noxw", "-s", "functional_gym_training"],
                cwd=ROOT,
                env={**environment(token, temporary), **_cache(pythons["policy"])},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(Session(process, log, token, temporary))
        return started[-1]

    yield start
    for session in started:
        session.end()
        shutil.rmtree(session.temporary, ignore_errors=True)
        begun = re.search(r"exacthead: run folder (\S+)", session.printed())
        if begun and request.session.testsfailed == failed:
            shutil.rmtree(begun[1])


def _cache(python: str) -> dict[str, str]:
    """The cache folder whose workers this suite was given; an item does not inherit its name."""
    home = Path(python).parents[2]
    return {"EXACTHEAD_CACHE": str(home.parents[1])} if home.name == "workers" else {}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"this test must be allowed to mount a tmpfs: {done.stderr}"
    yield Disk(folder)
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def listener() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
