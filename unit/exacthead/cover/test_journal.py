from __future__ import annotations

import resource
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.cover.inside.sitecustomize import Files, Journal
from exacthead.cover.journal import BrokenJournalError, read_journal

if TYPE_CHECKING:
    from collections.abc import Iterator

lines = st.sets(st.integers(min_value=0, max_value=2**32 - 1), max_size=400)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(names, lines, max_size=4))
def test_what_is_added_is_what_is_read(files: dict[str, set[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "journal"
        kept = Files(Journal(str(base), size=1024))
        for name in files:
            kept[name] = set()
        # Alternating, and each line twice, as coverage does for code that was made twice.
        for name, numbers in [*files.items(), *files.items()]:
            for number in numbers:
                kept[name].add(number)
        assert read_journal(base) == files
        assert dict(kept) == files


def test_a_line_is_written_once(tmp_path: Path) -> None:
    kept = Files(Journal(str(tmp_path / "journal"), size=1024))
    kept["a"] = set()
    for _ in range(5000):
        kept["a"].add(7)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["journal.0", "journal.names"]


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Files cannot grow beyond ``size`` bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_is_full_at_the_start_is_an_error(tmp_path: Path) -> None:
    with no_file_beyond(512), pytest.raises(OSError, match="large"):
        Journal(str(tmp_path / "journal"), size=1024)


@pytest.mark.parametrize("later", ["a line", "a file"])
def test_what_a_full_disk_did_not_take_breaks_the_journal(tmp_path: Path, later: str) -> None:
    kept = Files(Journal(str(tmp_path / "journal"), size=1024))
    kept["a"] = range(100)
    assert read_journal(tmp_path / "journal") == {"a": set(range(100))}
    with no_file_beyond(0):
        if later == "a line":
            for line in range(100, 200):
                kept["a"].add(line)
        else:
            kept["b"] = set()
    with pytest.raises(BrokenJournalError, match="the disk was full"):
        read_journal(tmp_path / "journal")


@pytest.mark.parametrize("size", [0, 5, 512])
def test_a_truncated_journal_is_broken(tmp_path: Path, size: int) -> None:
    base = tmp_path / "journal"
    journal = Journal(str(base), size=1024)
    journal.line(journal.file("a"), 3)
    path = tmp_path / "journal.0"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(BrokenJournalError, match=r"journal\.0 was damaged"):
        read_journal(base)


def test_a_journal_that_is_gone_is_broken(tmp_path: Path) -> None:
    with pytest.raises(BrokenJournalError, match="No such file"):
        read_journal(tmp_path / "journal")


def test_a_line_of_a_file_without_a_name_is_broken(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"), size=1024)
    journal.line(1, 3)
    with pytest.raises(BrokenJournalError, match="no name for its file 1"):
        read_journal(tmp_path / "journal")
