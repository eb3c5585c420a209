"""The noxfile in a nox of another environment than the harness's: this worker's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

ROOT = Path(__file__).parents[2]


def nox(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nox", "--noxfile", str(root / "noxfile.py"), *arguments],
        env={**os.environ, "NOX_CACHE_DIR": str(root / ".cache" / "nox"), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def sessions(printed: str) -> dict[str, str]:
    """Name and description of each session that nox lists."""
    return dict(re.findall(r"(?m)^[*-] (\S+) -> (.+)$", printed))


def test_the_sessions_are_listed_without_building_anything(tmp_path: Path) -> None:
    done = nox(ROOT, "--list", EXACTHEAD_CACHE=str(tmp_path), PYTHONPATH="")

    assert done.returncode == 0, done.stderr
    expected = {"functional_gym_training", "unit", "workers", "lock", "lint", "reproduce", "ci"}
    assert set(sessions(done.stdout)) >= expected
    assert list(tmp_path.iterdir()) == []


def test_every_declared_job_has_a_session_and_every_ci_session_exists() -> None:
    declared = tomllib.loads((ROOT / "ci/harness.toml").read_text(encoding="utf-8"))
    listed = sessions(nox(ROOT, "--list").stdout)

    assert {f"functional_{job}" for job in declared["jobs"]} <= listed.keys()
    assert set(declared["ci"]["sessions"]) <= listed.keys()


@pytest.fixture
def with_nox(small_repository: Repository) -> Repository:
    """The small repository with this noxfile and this harness; its environment is this worker."""
    root = small_repository.root
    shutil.copy(ROOT / "noxfile.py", root)
    shutil.copytree(
        ROOT / "ci" / "exacthead",
        root / "ci" / "exacthead",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    small_repository.commit({"ci/locks/harness.txt": "nox==1\n"})
    site = Path(os.__file__).parent  # only its folder's name counts
    uv = root / ".cache" / "tools" / "uv"
    small_repository.write(
        {
            ".cache/tools/uv": "#!/bin/sh\n"
            '[ "$1" != --version ] || echo "uv 99.0.0"\n'
            '[ "$1" != venv ] || {\n'
            "    for last; do :; done\n"
            f'    mkdir -p "$last/bin" "$last/lib/{site.name}/site-packages/x"\n'
            f'    ln -s "{sys.executable}" "$last/bin/python"\n'
            f'    cp "{sys.prefix}/pyvenv.cfg" "$last/"\n'
            f'    rm -r "$last/lib" && ln -s "{sys.prefix}/lib" "$last/lib"\n'
            "}\n"
        }
    )
    uv.chmod(0o755)
    return small_repository


def test_a_session_of_a_foreign_nox_runs_in_the_harness_environment(with_nox: Repository) -> None:
    path = f"{with_nox.root}/.cache/tools:{os.environ['PATH']}"

    green = nox(with_nox.root, "-s", "unit", PATH=path, PYTHONPATH="/nowhere")
    assert green.returncode == 0, green.stdout + green.stderr
    assert re.search(r"(?m)^1 passed, 0 failed, 0 skipped$", green.stdout + green.stderr)

    with_nox.commit({"unit/sums/test_sums.py": "def test_sum():\n    assert 1 + 1 == 3\n"})
    red = nox(with_nox.root, "-s", "unit", PATH=path)
    assert red.returncode == 1
    assert re.search(r"(?m)^0 passed, 1 failed, 0 skipped$", red.stdout + red.stderr)


def test_a_session_in_which_nothing_ran_is_no_success(with_nox: Repository) -> None:
    path = f"{with_nox.root}/.cache/tools:{os.environ['PATH']}"

    done = nox(with_nox.root, "--install-only", "-s", "unit", PATH=path)

    assert done.returncode == 1
    assert "nothing was run" in done.stderr


def test_the_ci_session_runs_what_the_declaration_lists(with_nox: Repository) -> None:
    path = f"{with_nox.root}/.cache/tools:{os.environ['PATH']}"
    text = (with_nox.root / "ci/harness.toml").read_text(encoding="utf-8")
    with_nox.commit({"ci/harness.toml": f'{text}\n[ci]\nsessions = ["unit"]\n'})

    done = nox(with_nox.root, "-s", "ci", PATH=path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed, 0 skipped" in done.stdout + done.stderr


@pytest.mark.parametrize("ending", ["ctrl-c", "nox is killed"])
def test_whoever_ends_nox_ends_the_run(with_nox: Repository, ending: str) -> None:
    waiting = "import time\n\ndef test_it():\n    time.sleep(600)\n"
    with_nox.commit({"unit/sums/test_sums.py": waiting})
    command = [sys.executable, "-m", "nox", "--noxfile", str(with_nox.root / "noxfile.py")]
    variables = {
        "PATH": f"{with_nox.root}/.cache/tools:{os.environ['PATH']}",
        "NOX_CACHE_DIR": str(with_nox.root / ".cache" / "nox"),
    }
    with subprocess.Popen(
        [*command, "-s", "unit"],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "run folder" in line:
                break
        if ending == "ctrl-c":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        # The pipe ends when the last process of the run has gone.
        rest = process.stdout.read()
        code = process.wait(timeout=60)

    assert "0 passed, 1 failed, 0 skipped" in rest
    assert code == (130 if ending == "ctrl-c" else -signal.SIGKILL)
    result = with_nox.run_folder() / "result.json"
    assert json.loads(result.read_text(encoding="utf-8"))["state"] == "interrupted"
