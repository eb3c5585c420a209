"""Helpers: a small checkout, programs of it run as an item's processes would be, and their data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from exacthead.cover.combine import combine_run
from exacthead.cover.data import Combined
from exacthead.cover.item import DATA, SUMMARY, ItemCoverage, combine_item
from exacthead.cover.settings import PARTS, Prepared, Settings, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.cover.combine import Coverage

PYTHON = ".".join(map(str, sys.version_info[:3]))
_GIT = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(root: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *_GIT, *args], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_checkout(root: Path, files: Mapping[str, str]) -> Path:
    root.mkdir(parents=True)
    for name, text in files.items():
        write(root / name, text)
    git(root, "init", "-q", "-b", "main")
    commit(root)
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def commit(root: Path) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "change")
    return git(root, "rev-parse", "HEAD")


@dataclass
class Item:
    """One item that is measured.

    Attributes:
        root: the checkout.
        folder: the item's folder.
        settings: what counts.
        python: the version that is told.
    """

    root: Path
    folder: Path
    settings: Settings = field(default_factory=Settings)
    python: str = PYTHON

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.prepared: Prepared = prepare(self.folder, self.root, self.settings, python=self.python)

    @property
    def parts(self) -> Path:
        return self.folder / PARTS

    @property
    def data_files(self) -> list[Path]:
        return sorted((self.parts / "data").iterdir())

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(self.root), *map(str, self.prepared.pythonpath)]),
            **self.prepared.environment,
        }

    def run(
        self, *args: str, timeout_s: float = 120, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Python in the checkout with what the item is given."""
        return subprocess.run(
            [sys.executable, *args],
            cwd=self.root,
            env=self.environment() | variables,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def combine(self, ended: str = "") -> ItemCoverage:
        return combine_item(self.folder, ended=ended)

    def lines(self) -> dict[str, set[int]]:
        return read_lines(self.folder / DATA)


def read_lines(path: Path) -> dict[str, set[int]]:
    """The lines of a data file by measured file, those without lines too."""
    from coverage import CoverageData

    data = CoverageData(basename=str(path), read_only=True)
    data.read()
    found = {name: set(data.lines(name) or ()) for name in data.measured_files()}
    data.close(force=True)
    return found


def made_item(folder: Path, lines: Mapping[str, set[int]], **changes: object) -> Path:
    """The folder of an item in which these lines ran, as if it had been measured."""
    folder.mkdir(parents=True)
    combined = Combined(folder / DATA, rename=str)
    combined.add_lines(lines)
    combined.close()
    summary = {
        **asdict(ItemCoverage((), "lines by sys.monitoring", processes=1, recovered=0)),
        **changes,
    }
    (folder / SUMMARY).write_text(json.dumps(summary), encoding="utf-8")
    return folder


def run_of(
    run: Path, root: Path, settings: Settings, items: Mapping[str, Mapping[str, set[int]]]
) -> Coverage:
    """The coverage of a run whose items ran these lines."""
    folders = {name: made_item(run / "items" / name, lines) for name, lines in items.items()}
    return combine_run(run, folders, root, settings)
