from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.cover.processes import Noted, read_processes

if TYPE_CHECKING:
    from pathlib import Path

LOG = """\
   17.1733: New process: pid=17, executable: '/usr/bin/python'
   17.1733: New process: cmd: ['/w/run.py', '--fast', 'a b']
   17.1733: core.py: Using core=sysmon
   17.0000: exacthead journal ('/item/journal.17.ab', "it's")
123456.908d: New process: forked 17 -> 123456
something that a full disk tore
123456.908d: core.py: Using core=ctrace
   17.1733: Renaming data file to '/item/data/coverage.h.pid17.X1.Habch' (does not exist)
   17.1733: Renaming data file to '/item/data/coverage.h.pid17.X1.Hdefh' (does not exist)
123456.908d: New process: pid=123456, executable: '/usr/bin/python'
123456.908d: New process: cmd: None
123456.908d: core.py: Using core=sysmon
   18.1733: New process: pid=18, executable: '/usr/bin/python'
"""


def test_every_program_of_every_process_that_measured_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(LOG, encoding="utf-8")
    first, fork, replaced = read_processes(path)
    assert str(first) == "process 17 (/w/run.py --fast a b)"
    assert first.cores == ["sysmon"]
    assert first.journals == [Noted("/item/journal.17.ab", "it's")]
    assert first.saved == ["/item/data/coverage.h.pid17.X1.Hdefh"]
    assert str(fork) == "process 123456 (forked by process 17 (/w/run.py --fast a b))"
    assert (fork.cores, fork.journals, fork.saved) == (["ctrace"], [], [])
    assert str(replaced) == "process 123456 (None)"


WHOLE = """\
   17.1733: core.py: Using core=sysmon
   17.0000: exacthead journal ('/item/journal.17.ab', "it's")
   17.1733: Renaming data file to '/item/data/coverage.h.pid17.X1.Habch' (does not exist)
"""


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_wherever_a_full_disk_tears_the_log_it_can_be_read(tmp_path: Path, length: int) -> None:
    path = tmp_path / "log.txt"
    path.write_text(WHOLE[:length], encoding="utf-8")

    for process in read_processes(path):
        assert process.journals in ([], [Noted("/item/journal.17.ab", "it's")])


def test_a_log_that_is_not_there_names_nobody(tmp_path: Path) -> None:
    assert read_processes(tmp_path / "log.txt") == []
