from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.disk import Lines, writing
from posttrain.errors import StackError

ROOT = Path(__file__).resolve().parents[3]


def test_lines_are_there_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    with Lines(tmp_path / "file") as lines:
        lines.append("one", "two ä")
        lines.append()
        lines.append("")
        assert (tmp_path / "file").read_text(encoding="utf-8") == "one\ntwo ä\n\n"


def test_lines_of_an_earlier_run_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before\n")
    with pytest.raises(FileExistsError):
        Lines(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "before\n"


def test_lines_that_do_not_all_fit_are_all_taken_back(tmp_path: Path) -> None:
    program = """
import resource, signal, sys
from pathlib import Path
from posttrain.disk import Lines

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
lines = Lines(Path(sys.argv[1]))
lines.append("a" * 99)
try:
    lines.append(*["b" * 99] * 10)
except OSError as error:
    print(error.strerror)
lines.append("c" * 99)
"""
    path = tmp_path / "file"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "File too large\n"
    assert path.read_text() == "a" * 99 + "\n" + "c" * 99 + "\n"


def test_what_could_not_be_written_is_named_with_its_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(StackError, match=rf"write samples to {tmp_path}\n  found: Is a directory"),
        writing("samples", tmp_path),
    ):
        tmp_path.write_text("")


def test_another_failure_is_left_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), writing("samples", Path("/nowhere")):
        raise ZeroDivisionError
