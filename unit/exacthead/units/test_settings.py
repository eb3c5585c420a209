from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.units.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from unit.exacthead.units.small import Suite

SETTINGS = Settings((), (), (), (), (), collect=False, stream="", log="", crash="", stacks="")

REMOVES = """
import os, shutil

def test_removes():
    shutil.rmtree("item/artifacts")
    os._exit(1)

def test_after(): pass
"""


def test_a_run_s_folder_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    SETTINGS.write(folder / "1.settings.json")
    shutil.rmtree(folder)

    with pytest.raises(HarnessError, match="its folder is gone") as caught:
        SETTINGS.write(folder / "1.settings.json")

    assert "removed the run's folder" in caught.value.todo


def test_a_test_that_removes_the_run_s_folder_is_what_the_driver_speaks_of(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    small = suite({"tests/test_a.py": REMOVES})
    tests = ("tests/test_a.py::test_removes", "tests/test_a.py::test_after")

    ran = small.run(small.order(tests))

    assert ran.code == 2, ran.said
    assert "a test, or somebody, removed the run's folder" in ran.said


def test_a_place_that_cannot_be_written_to_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "1.settings.json").mkdir()

    with pytest.raises(HarnessError, match="make room or mend the folder's permissions"):
        SETTINGS.write(tmp_path / "1.settings.json")
