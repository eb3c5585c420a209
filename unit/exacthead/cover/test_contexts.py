from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from coverage import CoverageData

from exacthead.cover.item import DATA
from exacthead.cover.settings import Settings
from unit.exacthead.cover.conftest import ONE, THREE, TWO
from unit.exacthead.cover.measuring import Item, write

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """\
import os, signal, subprocess, sys
import pytest
import work


@pytest.fixture(scope="module")
def shared():
    work.three()


def test_first(shared):
    work.one()


def test_second(shared):
    script = "import os, work; work.two(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", script])


def test_third():
    if not os.fork():
        work.three()
        os._exit(0)
    os.wait()


def test_pytest_in_a_child():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "inner.py"]
    subprocess.run(command, check=True)
"""


@pytest.fixture
def measured(tmp_path: Path, checkout: Path) -> Item:
    settings = Settings(sources=("work.py",), contexts=True)
    item = Item(checkout, tmp_path / "item", settings)
    write(checkout / "test_them.py", TESTS)
    write(checkout / "inner.py", "import work\n\n\ndef test_inner():\n    work.two()\n")
    done = item.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_them.py")
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    return item


def test_each_line_is_told_with_the_tests_that_ran_it(measured: Item) -> None:
    found = measured.combine()
    assert found.reasons == ()
    assert found.how == "lines and the test that ran them, by the C tracer"
    data = CoverageData(basename=str(measured.folder / DATA), read_only=True)
    data.read()
    contexts = {line: set(seen) for line, seen in data.contexts_by_lineno("work.py").items()}
    data.close(force=True)
    assert contexts[ONE] == {"test_them.py::test_first|call"}
    assert contexts[TWO] == {
        "test_them.py::test_second|child",  # killed
        "test_them.py::test_pytest_in_a_child|child",
    }
    assert contexts[THREE] == {
        "test_them.py::test_first|setup",  # a fixture that test_second uses too
        "test_them.py::test_third|child",
    }
    assert "" in contexts[1]  # imported while tests were collected
