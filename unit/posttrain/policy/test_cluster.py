"""The run's own Ray cluster: where it leaves nothing, and what it says when it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
END_S = 240
PROGRAM = """
import os, sys
from posttrain.cluster import cluster, prepare_environment
from posttrain.errors import WorkerError
prepare_environment()
folder = sys.argv[1] if len(sys.argv) > 1 else None
try:
    with cluster(cpus=1, accelerators=0, bundles=[{"CPU": 1}], deadline_s=120, temp_dir=folder):
        print("running in", os.listdir(os.environ["RAY_TMPDIR"]))
        import ray
        print("priority", ray.get(ray.remote(num_cpus=0)(lambda: os.nice(0)).remote()) - os.nice(0))
except WorkerError as error:
    print(error)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    # Ray's sockets limit the length of the path, so pytest's own folder is too deep.
    with tempfile.TemporaryDirectory(prefix="c") as folder:
        yield Path(folder)


def run(place: Path, *arguments: str) -> str:
    (place / "home").mkdir()
    (place / "ray").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={
            **{name: text for name, text in os.environ.items() if not name.startswith("RAY_")},
            "HOME": str(place / "home"),
            "RAY_TMPDIR": str(place / "ray"),
            "PYTHONPATH": os.environ.get("PYTHONPATH") or str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=END_S,
        check=True,
    )
    # Where there is no network, as in a container, Ray says that it looked for one.
    said = [line for line in ran.stderr.splitlines() if " network_util.cc:" not in line]
    assert said == []
    return ran.stdout


def test_a_cluster_shares_its_callers_priority_and_leaves_neither_its_folder_nor_a_secret(
    place: Path,
) -> None:
    said = run(place)
    assert said.startswith("running in ['r")
    assert said.endswith("\npriority 0\n")
    assert list((place / "ray").iterdir()) == []
    assert list((place / "home").iterdir()) == []


def test_a_folder_whose_path_is_too_long_is_named(place: Path) -> None:
    folder = place / ("long" * 20)
    said = run(place, str(folder))
    assert str(folder) in said
    assert "to do: give cluster.temp_dir a short path" in said
