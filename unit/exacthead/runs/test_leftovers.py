from __future__ import annotations

import mmap
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from exacthead.runs import leftovers
from exacthead.runs.process import Process, read_process

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def me() -> Process:
    found = read_process(os.getpid())
    assert found is not None
    return found


def test_a_name_counts_as_the_items_only_when_it_holds_it(tmp_path: Path, me: Process) -> None:
    (tmp_path / "before").write_bytes(b"x")
    shared = leftovers.SharedMemory(tmp_path)
    (tmp_path / "theirs").write_bytes(b"x")
    with (tmp_path / "ours").open("wb"), (tmp_path / "before").open("rb"):
        shared.look(lambda: [me])
    assert shared.left() == ["ours"]
    assert shared.unexplained() == ["theirs"]
    assert shared.remove_left() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "theirs"]


def test_a_mapped_file_is_held_after_its_descriptor_is_closed(tmp_path: Path, me: Process) -> None:
    shared = leftovers.SharedMemory(tmp_path)
    with (tmp_path / "mapped").open("w+b") as file:
        file.truncate(4096)
        block = mmap.mmap(file.fileno(), 4096)
    shared.look(lambda: [me])
    assert shared.left() == ["mapped"]
    # In use by a living process outside the item (this one): told, but not taken away.
    assert shared.remove_left() == ["mapped"]
    block.close()
    assert shared.remove_left() == []


def test_a_folder_of_the_item_goes_with_its_content(tmp_path: Path, me: Process) -> None:
    shared = leftovers.SharedMemory(tmp_path)
    (tmp_path / "folder").mkdir()
    with (tmp_path / "folder" / "file").open("wb"):
        shared.look(lambda: [me])
    assert shared.remove_left() == []
    assert list(tmp_path.iterdir()) == []


def test_a_later_file_of_the_same_name_is_not_the_items(tmp_path: Path, me: Process) -> None:
    shared = leftovers.SharedMemory(tmp_path)
    with (tmp_path / "name").open("wb"):
        shared.look(lambda: [me])
    (tmp_path / "name").rename(tmp_path / "elsewhere")  # keeps its inode in use
    (tmp_path / "name").write_bytes(b"theirs")
    assert shared.remove_left() == []
    assert (tmp_path / "name").read_bytes() == b"theirs"


def test_nobody_is_asked_while_nothing_is_new(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(b"x")
    shared = leftovers.SharedMemory(tmp_path)
    shared.look(lambda: pytest.fail("walked over /proc for nothing"))


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_listening_process_is_described_with_its_port(
    family: socket.AddressFamily, address: str, me: Process
) -> None:
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        assert port in {each.port for each in leftovers.listeners()}
        (sentence,) = leftovers.describe([me])
    assert f"process {os.getpid()} `" in sentence
    assert f"listening on {port}" in sentence


def fake_tool(folder: Path, lines: str) -> None:
    """What stands for an accelerator's driver on a machine that has none: its tool's output."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def test_accelerator_memory_is_summed_by_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, me: Process
) -> None:
    fake_tool(tmp_path, f"{me.pid}, 300\n{me.pid}, 200\n77, [N/A]\nNo devices were found")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert leftovers.accelerator_mb() == {me.pid: 500}
    assert "500 MiB of accelerator memory" in leftovers.describe([me])[0]


def test_a_machine_without_accelerators_has_none_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert leftovers.accelerator_mb() == {}
