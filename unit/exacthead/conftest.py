"""What the harness's tests share: uv, hand-built wheels, a small repository with a harness.toml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import Harness, load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_wheel() -> Callable[..., Path]:
    """A function that writes a wheel with one empty module and returns its path."""

    def make(
        folder: Path,
        name: str,
        version: str,
        *,
        tag: str = "py3-none-any",
        requires: tuple[str, ...] = (),
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        wheel = folder / f"{name}-{version}-{tag}.whl"
        info = f"{name}-{version}.dist-info"
        lines = [f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {line}" for line in requires]
        files = {
            f"{name}/__init__.py": "",
            f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", *lines, ""]),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
        with zipfile.ZipFile(wheel, "w") as archive:
            for file, text in files.items():
                # A fixed date, so that equal input gives equal bytes.
                archive.writestr(zipfile.ZipInfo(file), text)
        return wheel

    return make


@pytest.fixture
def make_harness(tmp_path: Path) -> Callable[[str], Harness]:
    """A function that writes ``harness.toml`` (and the harness's pyproject) and loads it."""

    def make(text: str) -> Harness:
        root = tmp_path / "repository"
        (root / "ci" / "locks").mkdir(parents=True, exist_ok=True)
        (root / "ci" / "harness.toml").write_text(
            f'[project]\nname = "tiny"\n{text}', encoding="utf-8"
        )
        (root / "ci" / "pyproject.toml").write_text(
            '[project]\nname = "exacthead"\ndependencies = ["alpha>=1"]\n', encoding="utf-8"
        )
        return load(root)

    return make


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH that holds uv and nothing else."""
    uv = shutil.which("uv")
    assert uv is not None, "these tests need uv on PATH, as every session has it"
    folder = tmp_path / "tools"
    folder.mkdir()
    # A uv that is a script itself needs the real PATH to find its own parts.
    (folder / "uv").write_text(
        f"#!/bin/sh\nPATH='{os.environ['PATH']}' exec '{uv}' \"$@\"\n", encoding="utf-8"
    )
    (folder / "uv").chmod(0o755)
    return folder


@dataclass(frozen=True)
class Repository:
    """A git repository of its own, and the harness's commands run in it as a user would."""

    root: Path

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.test")
        done = subprocess.run(
            ["git", "-C", str(self.root), *who, *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str]) -> str:
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A step")
        return self.git("rev-parse", "HEAD")

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "exacthead", *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(ROOT / "ci"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def exacthead(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """The exit code and everything that was printed."""
        with self.start(*arguments, **variables) as process:
            printed, _ = process.communicate(timeout=240)
            return process.returncode, printed

    def run_folders(self) -> set[Path]:
        """The run folders; beside them lies what is made of all of them."""
        return {path.parent for path in (self.root / "runs").glob("*/plan.json")}

    def run_folder(self) -> Path:
        """The newest run folder."""
        return max(self.run_folders(), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture
def empty_repository(tmp_path: Path) -> Repository:
    root = tmp_path / "checkout"
    root.mkdir()
    repository = Repository(root)
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.commit({".gitignore": "/.cache/\n/runs/\n__pycache__/\n"})
    return repository


HARNESS = f"""
[project]
name = "tiny"

[workers.plain]
python = "{sys.version_info.major}.{sys.version_info.minor}"
provided = "{sys.executable}"
requirements = ["pytest"]

[suites.sums]
paths = ["unit/sums"]
worker = "plain"
timeout_s = 120

[jobs.count]
script = "functional/count.sh"
contract = "functional/count.contract.toml"
level = "L0"
timeout_s = 120

[jobs.count.legs.plain]
workers = {{ policy = "plain" }}
"""
COUNT = """
"$EXACTHEAD_PYTHON_POLICY" -c 'print("counting in", __import__("sys").version_info[:2])'
echo '{"step": 1, "count": 3, "timing/count": 0.25}' >"$EXACTHEAD_ITEM_FOLDER/metrics.jsonl"
"""
CONTRACT = """
[[check]]
name = "it counts to three"
kind = "equals"
metric = "count"
value = 3
"""


@pytest.fixture
def small_repository(empty_repository: Repository) -> Repository:
    """A repository with one provided worker, one suite with one test, one job with one leg."""
    empty_repository.commit(
        {
            "ci/harness.toml": HARNESS,
            "unit/sums/test_sums.py": "def test_sum():\n    assert 1 + 1 == 2\n",
            "functional/count.sh": COUNT,
            "functional/count.contract.toml": CONTRACT,
            "fixtures/numbers.jsonl": "[1]\n",
            "fixtures/model/weights": "1 2 3\n",
        }
    )
    return empty_repository
