"""An item's paths in a container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import exacthead
from exacthead.images.box import Limits, give
from exacthead.images.environment import Environment
from exacthead.images.place import InImage, copy_harness
from exacthead.workers.spec import Interpreter

if TYPE_CHECKING:
    import pytest

    from exacthead.images.engine import Engine


def place(root: Path, below: str = ".") -> InImage:
    pythons = {
        minor: Interpreter(Path(f"/usr/bin/python{minor}"), "cpython", f"{minor}.1", "a", "p")
        for minor in ("3.9", "3.13", "3.11")
    }
    environment = Environment("k" * 64, (), {}, pythons)
    engine: Engine = None  # type: ignore[assignment]
    limits = Limits(1, 1, 1)
    return InImage(engine, "small", "sha256:1", environment, root, below, limits, Path("/copy"))


def test_the_results_and_the_workspace_are_the_only_paths_that_are_translated(
    tmp_path: Path,
) -> None:
    root, folder = tmp_path / "root", tmp_path / "root" / "runs" / "1" / "items" / "x"
    inside = place(root)

    assert inside.seen(folder, folder) == Path("/results")
    assert inside.seen(folder / "order.json", folder) == Path("/results/order.json")
    assert inside.seen(root, folder) == Path("/workspace")
    assert inside.seen(root / "ci", folder) == Path("/workspace/ci")
    assert inside.seen(Path("/results/x"), folder) == Path("/results/x")
    assert place(root, "sub/dir").seen(root / "ci", folder) == Path("/workspace/sub/dir/ci")


def test_a_path_through_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert place(tmp_path / "link").seen(tmp_path / "real" / "a", tmp_path / "x") == (
        Path("/workspace/a")
    )


def test_the_newest_python_runs_the_harness(tmp_path: Path) -> None:
    assert place(tmp_path).python == "/usr/bin/python3.13"


def test_a_folder_is_given_whole_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "f").touch()
    (tmp_path / "a" / "out").symlink_to("/etc/passwd")
    given: list[tuple[str, bool]] = []

    def chown(path: str, _user: int, _group: int, *, follow_symlinks: bool) -> None:
        given.append((os.path.relpath(path, tmp_path), follow_symlinks))

    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    give(tmp_path / "a", 1, 1)

    assert {path for path, _ in given} == {"a", "a/b", "a/f", "a/out"}
    assert not any(followed for _, followed in given)


def test_the_copy_of_the_harness_runs_by_itself_and_keeps_its_byte_code(tmp_path: Path) -> None:
    there = copy_harness(tmp_path / "copy")
    source = Path(exacthead.__file__)
    copied = there / "exacthead" / "__init__.py"
    program = "import exacthead.runs.supervisor, exacthead.units.drive as it; print(it.__file__)"

    done = subprocess.run(
        [sys.executable, "-S", "-E", "-B", "-c", program],
        cwd=there, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == f"{there / 'exacthead' / 'units' / 'drive.py'}\n"
    assert copied.stat().st_mtime == source.stat().st_mtime
    assert not (there / "exacthead" / "images").exists()
