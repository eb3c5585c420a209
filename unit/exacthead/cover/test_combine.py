from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.cover.combine import FileCoverage, combine_run
from exacthead.cover.data import Combined
from exacthead.cover.item import DATA
from exacthead.cover.settings import Settings
from exacthead.errors import HarnessError
from unit.exacthead.cover.conftest import ONE, TWO
from unit.exacthead.cover.measuring import (
    Item,
    made_item,
    make_checkout,
    read_lines,
    run_of,
    write,
)

if TYPE_CHECKING:
    from random import Random


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_one_file_under_two_roots_and_in_a_subprocess_is_one_file(
    tmp_path: Path, checkout: Path, run: Path
) -> None:
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(checkout, copy)
    here, there = Item(checkout, tmp_path / "a"), Item(copy, tmp_path / "b")
    here.run("-c", "import work; work.one()")
    there.run(
        "-c",
        "import subprocess, sys, work; work.two(); "
        "subprocess.run([sys.executable, '-c', 'import work; work.three()'])",
    )
    here.combine()
    there.combine()
    shutil.rmtree(copy)
    found = combine_run(run, {"a": here.folder, "b": there.folder}, checkout, Settings())
    assert found.files == (FileCoverage("idle.py", 0, 1), FileCoverage("work.py", 6, 6))
    assert found.percent == pytest.approx(100 * 6 / 7)
    assert found.complete
    assert str(found) == "85.7 % of lines (lines by sys.monitoring)"


def test_a_link_to_the_checkout_is_the_checkout(tmp_path: Path, checkout: Path) -> None:
    (tmp_path / "link").symlink_to(checkout)
    item = Item(tmp_path / "link", tmp_path / "item")
    item.run("-c", "import work; work.one()")
    item.run("-c", "import work; work.two()", PYTHONPATH=os.path.realpath(checkout))
    item.combine()
    assert item.lines() == {"work.py": {1, 5, 9, ONE, TWO}}


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a.py", "b.py"]), st.sets(st.integers(1, 99))),
        min_size=1,
        max_size=4,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=15)
def test_the_order_of_items_makes_no_difference(
    items: list[dict[str, set[int]]], random: Random
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [made_item(folder / f"{number}", lines) for number, lines in enumerate(items)]
        seen = []
        for _ in range(2):
            combined = Combined(folder / "all.sqlite", rename=str)
            assert [combined.add(each / DATA) for each in made] == [None] * len(made)
            combined.close()
            seen.append(read_lines(folder / "all.sqlite"))
            random.shuffle(made)
    expected: dict[str, set[int]] = {}
    for lines in items:
        for file, numbers in lines.items():
            expected.setdefault(file, set()).update(numbers)
    assert seen == [{file: lines for file, lines in expected.items() if lines}] * 2


def test_the_xml_names_files_relative_to_the_checkout(run: Path, checkout: Path) -> None:
    run_of(run, checkout, Settings(), {"a": {"work.py": {1, 5, 9, ONE}}})
    text = (run / "coverage.xml").read_text(encoding="utf-8")
    found = re.findall(r'filename="([^"]+)"|line number="(\d+)" hits="(\d)"', text)
    assert ["".join(each) for each in found] == [
        *("idle.py", "10"),
        *("work.py", "11", "21", "51", "60", "91", "100"),
    ]


def test_an_item_without_coverage_makes_the_run_incomplete(
    tmp_path: Path, checkout: Path, run: Path
) -> None:
    there = made_item(tmp_path / "there", {"work.py": {1}})
    items = {"there": there, "gone": tmp_path / "gone"}
    found = combine_run(run, items, checkout, Settings())
    assert not found.complete
    (reason,) = found.reasons
    assert reason.startswith("gone: it has no coverage: FileNotFoundError")
    assert "incomplete: gone: it has no coverage" in str(found)


@pytest.mark.parametrize("size", [0, 100, 9000, None])
def test_a_damaged_file_of_an_item_makes_the_run_incomplete_and_loses_no_other(
    tmp_path: Path, checkout: Path, run: Path, size: int | None
) -> None:
    items = {name: made_item(tmp_path / name, {"work.py": {ONE}}) for name in ("a", "b")}
    path = items["a"] / DATA
    if size is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:size])
    found = combine_run(run, items, checkout, Settings())
    (reason,) = found.reasons
    assert reason.startswith("a: its coverage.sqlite ")
    assert read_lines(run / DATA)["work.py"] == {ONE}


def test_what_an_item_says_of_itself_is_passed_on(
    tmp_path: Path, checkout: Path, run: Path
) -> None:
    items = {
        "a": made_item(tmp_path / "a", {"work.py": {1}}, recovered=2, processes=3),
        "b": made_item(tmp_path / "b", {"work.py": {1}}, reasons=["process 7 (x): it died"]),
        "c": made_item(tmp_path / "c", {"work.py": {1}}, how="lines by the C tracer"),
    }
    found = combine_run(run, items, checkout, Settings())
    assert found.reasons == ("b: process 7 (x): it died",)
    assert found.how == ("a, b: lines by sys.monitoring", "c: lines by the C tracer")
    (note,) = found.notes
    assert note.startswith("a: 2 of 3 processes were ended before they could save")


def test_files_that_nothing_imported_count(tmp_path: Path, run: Path) -> None:
    root = make_checkout(
        tmp_path / "checkout",
        {
            "lib/a.py": "x = 1\n",
            "lib/deep/b.py": "x = 1\n",
            "lib/omitted.py": "x = 1\n",
            "other.py": "x = 1\n",
            "lib/data.txt": "x\n",
            ".gitignore": "built/\n",
        },
    )
    write(root / "lib" / "untracked.py", "x = 1\ny = 2\n")
    write(root / "lib" / "built" / "ignored.py", "x = 1\n")
    (root / "lib" / "a.py").unlink()
    wanted = Settings(sources=("lib",), omit=("lib/omitted.py",))
    found = run_of(run, root, wanted, {"a": {}})
    assert found.files == (
        FileCoverage("lib/deep/b.py", 0, 1),
        FileCoverage("lib/untracked.py", 0, 2),
    )


def test_excluded_lines_need_no_test(tmp_path: Path, run: Path) -> None:
    text = (
        "def f():\n    raise NotImplementedError\n\n\n"
        "if __name__ == '__main__':  # pragma: no cover\n    f()\n"
    )
    root = make_checkout(tmp_path / "checkout", {"a.py": text})
    wanted = Settings(exclude=("raise NotImplementedError$",))
    assert run_of(run, root, wanted, {"a": {}}).files == (FileCoverage("a.py", 0, 1),)


def test_what_is_no_python_and_what_was_removed_is_noted(tmp_path: Path, run: Path) -> None:
    root = make_checkout(tmp_path / "checkout", {"old.py": "print 'x'\n", "a.py": "x = 1\n"})
    found = run_of(run, root, Settings(), {"a": {"a.py": {1}, "removed.py": {1}}})
    assert found.files == (FileCoverage("a.py", 1, 1),)
    assert found.complete
    assert ["old.py" in note or "removed.py" in note for note in found.notes] == [True, True]


def test_a_checkout_without_an_executable_line_has_no_percentage(tmp_path: Path, run: Path) -> None:
    root = make_checkout(tmp_path / "checkout", {"empty.py": "# nothing\n"})
    found = run_of(run, root, Settings(), {"a": {}})
    assert found.percent is None
    assert str(found).startswith("no executable lines")


def test_a_run_folder_that_is_gone_is_an_error(tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(HarnessError, match="coverage"):
        combine_run(tmp_path / "gone", {}, checkout, Settings())
