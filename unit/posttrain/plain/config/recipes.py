"""Small schemas and recipes that tests of the configuration share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

from posttrain.config.keys import (
    IDENTITY,
    Section,
    honoured_by,
)
from posttrain.config.load import load_schema
from posttrain.errors import RecipeError

ROOT = Path(__file__).parents[4]
GYM_TRAINING = ROOT / "functional/recipes/gym_training.yaml"
GIVEN = (
    "run.dir=runs/test",
    "interpreters.policy=python-p",
    "interpreters.generation=python-g",
    "interpreters.gym=python-y",
)


class Inner(Section):
    lr: float
    names: tuple[str, ...]


class Small(Section):
    inner: Inner
    seed: int
    label: str
    on: bool


SMALL = "inner: {lr: 0.1, names: [a, b]}\nseed: 1\nlabel: x\non: true\n"


class Capture(Section):
    folder: str


class Shared(Section):
    seed: int
    capture: Annotated[Capture | None, honoured_by("controller")] = None


def write(folder: Path, **files: str) -> Path:
    """Write the files, and return the path of ``main.yaml``."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / "main.yaml"


class Files(Section):
    train: Annotated[str, IDENTITY]
    check: Annotated[str, IDENTITY]
    shuffle: bool
    extra: tuple[str, ...]


class Run(Section):
    data: Files
    lr: float


RUN = """
data: {train: base.jsonl, check: "${data.train}", shuffle: true, extra: [a, b]}
lr: 0.1
"""


def line_of(path: Path, text: str) -> str:
    """Where a line of a file is, as origins say it."""
    return f"{path}:{path.read_text(encoding='utf-8').splitlines().index(text) + 1}"


def load_small(path: Path, *overrides: str) -> Small:
    return load_schema(Small, path, overrides).recipe


def refused(path: Path, *overrides: str, schema: type[Section] = Small) -> str:
    with pytest.raises(RecipeError) as caught:
        load_schema(schema, path, overrides)
    error = caught.value
    assert error.asked
    assert error.found
    assert error.todo
    return str(error)
