"""What the harness's tests share: uv, hand-built wheels, a small repository with a harness.toml."""

from __future__ import annotations

import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

from exacthead.config import Harness, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
