from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.report.covered import Line, ranges, read_coverage
from unit.exacthead.report.sample import sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("numbers", "said"), [([], ""), ([3], "3"), ([3, 4], "3-4"), ([1, 3, 8, 9, 10], "1, 3, 8-10")]
)
def test_numbers_in_a_row_are_a_range(numbers: list[int], said: str) -> None:
    assert ranges(numbers) == said


@given(st.sets(st.integers(1, 500)))
def test_ranges_name_exactly_their_numbers(numbers: set[int]) -> None:
    said = ranges(sorted(numbers))
    parts = [part.split("-") for part in said.split(", ") if part]
    found = [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)]
    assert found == sorted(numbers)


def test_the_lines_of_the_change_are_shown_with_some_around(tmp_path: Path) -> None:
    folder, _ = sample(tmp_path / "runs")
    root = tmp_path / "checkout"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 13)))
    covered = read_coverage(folder.path, root)
    assert (covered.percent, covered.total) == (40.0, 5)
    assert [(each.path, each.covered, each.total) for each in covered.files] == [
        ("src/a.py", 1, 4),
        ("src/b.py", 1, 1),
    ]
    assert covered.patch is not None
    assert covered.patch.state == "failed"
    (missed,) = covered.missed
    assert missed.ranges == "2-3, 9"
    numbers = [each.number if each else None for each in missed.lines]
    assert numbers == [1, 2, 3, 4, 5, None, 7, 8, 9, 10, 11]
    assert missed.lines[1] == Line(2, "line 2", missed=True)
    assert [each.number for each in missed.lines if each and each.missed] == [2, 3, 9]


@pytest.mark.parametrize("lines", [3, 0])
def test_a_file_that_is_not_what_it_was_shows_no_lines(tmp_path: Path, lines: int) -> None:
    folder, _ = sample(tmp_path / "runs")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x\n" * lines)
    covered = read_coverage(folder.path, tmp_path)
    assert covered.missed[0].lines == ()


def test_a_path_that_leads_out_of_the_checkout_is_not_read(tmp_path: Path) -> None:
    folder, _ = sample(tmp_path / "runs")
    (tmp_path / "secret.py").write_text("x\n" * 20)
    path = folder.path / "patch_coverage.json"
    path.write_text(path.read_text().replace("src/a.py", "../secret.py"))
    (tmp_path / "checkout").mkdir()
    covered = read_coverage(folder.path, tmp_path / "checkout")
    assert covered.missed[0].lines == ()


def test_secrets_in_a_line_are_masked_and_lines_stay_where_they_are(tmp_path: Path) -> None:
    folder, _ = sample(tmp_path / "runs")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("".join(f"token = {n}\n" for n in range(1, 13)))
    (missed,) = read_coverage(
        folder.path, tmp_path, lambda text: text.replace("n = 2", "n = *")
    ).missed
    assert missed.lines[1] == Line(2, "token = *", missed=True)
    (shifted,) = read_coverage(folder.path, tmp_path, lambda text: text.replace("\n", "", 1)).missed
    assert shifted.lines == ()


def test_a_broken_gate_is_an_error_that_names_its_file(tmp_path: Path) -> None:
    folder, _ = sample(tmp_path / "runs")
    (folder.path / "patch_coverage.json").write_text("{}")
    with pytest.raises(ValueError, match=r"^patch_coverage\.json"):
        read_coverage(folder.path, None)
